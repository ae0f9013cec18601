"""plume on Ray Serve: gateways that HTTP comes in by, and replicas that each have an engine.

`serve run ray_plume:app db=postgresql://…` on a cluster, `plume serve --ray` on one machine. docs/scaling.md says why
it is cut so, and what each part keeps.
"""

from ray_plume.application import AppArguments, Shape, app, application

__all__ = ["AppArguments", "Shape", "app", "application"]
