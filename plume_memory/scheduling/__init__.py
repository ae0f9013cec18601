"""Many requests on one model: who joins the running batch, who waits, who leaves."""

from plume_memory.scheduling.scheduler import BATCH, Scheduler

__all__ = ["BATCH", "Scheduler"]
