"""The page of a service, and what it reads."""
