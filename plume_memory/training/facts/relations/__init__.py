"""The tables of relations, by family. A family can be held out, to see whether a network learned to remember."""

from plume_memory.training.facts.relation import Relation
from plume_memory.training.facts.relations import (
    codes,
    companies,
    devices,
    events,
    life,
    people,
    places,
    preferences,
    products,
    projects,
    quantities,
    schedules,
    self,
    ties,
    travel,
    works,
)

FAMILIES: dict[str, tuple[Relation, ...]] = {
    "codes": codes.RELATIONS,
    "companies": companies.RELATIONS,
    "devices": devices.RELATIONS,
    "events": events.RELATIONS,
    "life": life.RELATIONS,
    "people": people.RELATIONS,
    "places": places.RELATIONS,
    "preferences": preferences.RELATIONS,
    "products": products.RELATIONS,
    "projects": projects.RELATIONS,
    "quantities": quantities.RELATIONS,
    "schedules": schedules.RELATIONS,
    "self": self.RELATIONS,
    "ties": ties.RELATIONS,
    "travel": travel.RELATIONS,
    "works": works.RELATIONS,
}
"""Relations by the name of their family."""
