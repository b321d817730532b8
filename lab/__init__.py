"""What measures and checks nystream from outside. Not part of the package: `python -m lab NAME` in a clone."""
