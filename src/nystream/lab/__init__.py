"""The paper's experiments, measurements and the demo. Only the command imports this package."""
