"""The paper's experiments, measurements and the demo. Nothing imports this package but the command."""
