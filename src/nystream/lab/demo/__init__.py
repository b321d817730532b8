"""The demonstration: a model learns real electricity demand, then follows it hour by hour."""
