"""The plan: what will be built, from what, in which order. Pure data; acting on it is `grstack.execute`."""

from grstack.plan.make import make_plan
from grstack.plan.model import Kind, Plan, Step

__all__ = ["Kind", "Plan", "Step", "make_plan"]
