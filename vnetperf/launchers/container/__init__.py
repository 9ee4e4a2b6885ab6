"""Containers of a run: network namespaces with processors of their own, without an image."""

from vnetperf.launchers.container.container import Container

__all__ = ["Container"]
