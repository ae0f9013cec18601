"""Finds the replica of a request: the one that is named, or the one whose place on a hash ring comes first.

Consistent hashing rather than Ray Serve's multiplexing: the latter has each replica report the ids that it holds, which
is little for tens of models and too much for a million memories; a ring is computed alike by every gateway, and one
replica more moves only its share of the memories.
"""

from typing import Any

from ray.serve.experimental.consistent_hash_router import ConsistentHashRouter

from ray_plume.affinity import AT


class ReplicaRouter(ConsistentHashRouter):  # type: ignore[misc]  # Ray is Any here
    """Ray Serve's ring, and before it the replica that a word names by its mark."""

    async def choose_replicas(self, candidate_replicas: list[Any], pending_request: Any = None) -> list[list[Any]]:
        """Return the replicas to try, in order."""
        ranks: list[list[Any]] = await super().choose_replicas(candidate_replicas, pending_request)
        word = "" if pending_request is None else pending_request.metadata.session_id
        if not word.startswith(AT):
            return ranks
        mark = word.removeprefix(AT)
        return [[one] for one in candidate_replicas if one.replica_id.unique_id == mark] + ranks
