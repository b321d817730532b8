"""The service on a Ray cluster: gateways that clients connect to, and replicas that have the streams."""

from nystream.serve.cluster.run import run_on_ray

__all__ = ["run_on_ray"]
