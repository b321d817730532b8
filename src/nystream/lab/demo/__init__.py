"""The demonstration: a model learns real demand of electricity, then follows it hour by hour."""
