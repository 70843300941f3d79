"""`inv new`: working skeletons for contributors, from the files under templates/."""

from grstack.new.name import Name
from grstack.new.operator import beside, inside
from grstack.new.plan import Plan

__all__ = ["Name", "Plan", "beside", "inside"]
