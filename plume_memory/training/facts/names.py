"""Invented names: people, towns, companies and other subjects, from syllables.

Common first names are mixed in, so that half of the people look ordinary. No name is a resource of the
world: the combinations number in the millions, so that a name says nothing about its facts.
"""

import random
from collections.abc import Callable

Draw = Callable[[random.Random], str]


def listed(words: str, *, separator: str | None = None) -> tuple[str, ...]:
    """Read a list of words written as a paragraph, cut at white space or at the separator."""
    return tuple(" ".join(word.split()) for word in words.split(separator))


def person(chance: random.Random) -> str:
    """Draw a person: mostly first and last name, at times a first name alone or one with a title."""
    form = chance.random()
    if form < 0.15:
        return first_name(chance)
    if form < 0.22:
        return f"{chance.choice(_TITLES)} {last_name(chance)}"
    return f"{first_name(chance)} {last_name(chance)}"


def first_name(chance: random.Random) -> str:
    """Draw a first name, common half of the time."""
    if chance.random() < 0.5:
        return chance.choice(_COMMON_FIRST)
    return chance.choice(_FIRST_HEADS) + chance.choice(_FIRST_TAILS)


def last_name(chance: random.Random) -> str:
    """Draw a surname of two or three syllables."""
    middle = chance.choice(_SURNAME_MIDDLES) if chance.random() < 0.3 else ""
    return chance.choice(_SURNAME_HEADS) + middle + chance.choice(_SURNAME_TAILS)


def town(chance: random.Random) -> str:
    """Draw a town, village or harbour."""
    name = chance.choice(_TOWN_HEADS) + chance.choice(_TOWN_TAILS)
    if chance.random() < 0.15:
        return f"{chance.choice(_TOWN_PREFIXES)} {name}"
    return name


def company(chance: random.Random) -> str:
    """Draw a company."""
    name = last_name(chance) if chance.random() < 0.5 else _coined(chance)
    if chance.random() < 0.15:
        return f"{name} & {last_name(chance)}"
    return f"{name} {chance.choice(_COMPANY_TAILS)}"


def project(chance: random.Random) -> str:
    """Draw a project's code name."""
    form = chance.random()
    if form < 0.4:
        return f"Project {chance.choice(_CODE_WORDS)}{chance.choice(_CODE_SUFFIXES)}"
    if form < 0.7:
        return f"Project {_coined(chance)}"
    return f"Operation {chance.choice(_ADJECTIVES)} {chance.choice(_CODE_WORDS)}"


def product(chance: random.Random) -> str:
    """Draw a product with its model number."""
    return f"{_coined(chance)} {chance.choice(_PRODUCT_TAILS)}{chance.randint(2, 99)}"


def event(chance: random.Random) -> str:
    """Draw an event that a place or company puts on."""
    host = town(chance) if chance.random() < 0.7 else last_name(chance)
    return f"{host} {chance.choice(_EVENT_TAILS)}"


def ship(chance: random.Random) -> str:
    """Draw a ship."""
    name = chance.choice(_CODE_WORDS) if chance.random() < 0.5 else first_name(chance)
    return f"MS {chance.choice(_ADJECTIVES)} {name}" if chance.random() < 0.6 else f"MS {_coined(chance)}"


def device(chance: random.Random) -> str:
    """Draw a machine's host name."""
    return f"{chance.choice(_CODE_WORDS).lower()}-{chance.choice(_DEVICE_TAILS)}{chance.randint(1, 40):02d}"


def room(chance: random.Random) -> str:
    """Draw a room, hall or lab."""
    return f"{chance.choice(_ROOM_HEADS)} {_coined(chance)}"


def title(chance: random.Random) -> str:
    """Draw the title of a book, film or song."""
    form = chance.random()
    if form < 0.5:
        return f"The {chance.choice(_ADJECTIVES)} {chance.choice(_TITLE_NOUNS)}"
    if form < 0.8:
        return f"{chance.choice(_TITLE_NOUNS)} of {town(chance)}"
    return f"A {chance.choice(_TITLE_NOUNS)} for {first_name(chance)}"


def team(chance: random.Random) -> str:
    """Draw a team or club."""
    return f"{town(chance)} {chance.choice(_TEAM_TAILS)}"


def _coined(chance: random.Random) -> str:
    return chance.choice(_COIN_HEADS) + chance.choice(_COIN_MIDDLES) + chance.choice(_COIN_TAILS)


_TITLES = ("Dr.", "Mr.", "Ms.", "Mrs.", "Prof.")
_COMMON_FIRST = listed(
    """
    Anna Ben Clara David Elena Felix Grace Henry Ines James Karin Leo Maria Noah Olga Paul Rosa Simon Tara
    Victor Wendy Yusuf Zoe Adam Bella Carl Daisy Erik Fiona George Hannah Ivan Julia Kofi Laura Mark Nina Oscar
    Priya Quentin Ruth Samuel Tomas Ursula Vera Walter Ximena Yara Zane Alice Bruno Chloe Dmitri Emma Farid
    Greta Hugo Irene Jonas Kenji Lena Mateo Nadia Owen Petra Rafael Sara Theo Umar Valerie Wei Amara Boris Celia
    Diego Esther Frank Gloria Hassan Isabel Jakob Kira Lucas Miriam Niko Oriana Pedro Rita Stefan Tessa Vikram
    Willa Aisha Bernard Camille Derek Eva Florian Gina Harald Ida Joel Katya Liam Mona Nils Otto Paula Robin
    Sofia Tim Ulrich Vivian Wanda Yannick Zara
    """
)
_FIRST_HEADS = listed(
    """
    Al An Ar Bel Bri Cal Cor Da Del Dor El Er Fa Fen Ga Hal Il Is Ja Kal Kor La Lis Lo Ma Mel Mir Na Nor Ol Or
    Pel Per Ra Ren Ri Sa Sel Si Tal Te Tis Ul Va Vel Vi Wil Ya Zel Zo
    """
)
_FIRST_TAILS = listed(
    """
    aro ava den dis dra ebo eck eli enna era eth ian ica idan ika ilda imir in ina io iq ira is isa ita iva lan
    lava len lo lyn mar mund na nan nes nia nik nor ra ran rek ric rin ro ros ryn sa sha son ta tan tha tor va
    van vin wen yan
    """
)
_SURNAME_HEADS = listed(
    """
    Ab Ald Bar Ber Bol Bran Cas Cor Dal Den Dor Eck Eld Fal Fen Gar Gil Hal Har Hol Ing Jar Kal Kar Kel Kor Lan
    Lind Lor Mal Mar Mor Nar Nor Ob Or Os Pel Per Quill Ran Ren Ros Sal Ser Sol Stan Sul Tal Tar Thor Tol Ul Und
    Val Van Ver Vis Wal Wen Wol Yar Zan Zel
    """
)
_SURNAME_MIDDLES = listed(
    """
    a e i o u an en el ar in or et il
    """
)
_SURNAME_TAILS = listed(
    """
    aby back bane beck berg bourne by castle dale den der dine don dorf dow fell field ford gan gard gate go
    grave hart holm horn kamp kin kov land ley lin low man mark mer mond mont nell nik ovic quist rath rick rin
    rose sen shaw sky son stad stein ster stone strom tam ter thorne ton tova vale vik wall ward wick win wood
    worth
    """
)
_TOWN_HEADS = listed(
    """
    Aber Al Ash Bar Birk Bran Brin Cald Carn Chel Dor Drum Dun East Ebb El Fal Fern Gal Glen Gor Hal Hath Ing
    Ister Jor Kall Kess Kil Kirn Lan Lor Lum Mar Mel Mor Nar Nor Ob Om Os Pen Quar Ras Ro Sal Sel Skar Sol Stel
    Sul Tar Tel Thar Tor Ull Vas Vel Ver West Wex Yar Zel
    """
)
_TOWN_TAILS = listed(
    """
    agne amo anto aven bach beck berg blen borough bridge bury by cliffe combe dale den dorf dorp dun eln ero
    ester fell field ford gate ham haven heim holm hurst ina ingen isle issa ista kirk la ley low mar mere mont
    mouth ney ola ona ora osk ovo port quay ridge sall sea shaw side stad stead stow sund ton tova tum vik ville
    wald wick worth
    """
)
_TOWN_PREFIXES = ("Upper", "Lower", "Old", "New", "Port", "Saint", "Great", "Little")
_COIN_HEADS = listed(
    """
    Ac Alt Bix Bor Cel Cor Dax Dor El Ev Fan Fer Gal Giv Hel Hex In Ix Jav Jun Kel Kiv Lam Lum Mav Mer Nav Nim
    Ob Om Pav Pol Quan Quo Rev Rin Sav Sol Tav Tel Ul Um Vam Vex Wob Xan Yel Zan Zor
    """
)
_COIN_MIDDLES = listed(
    """
    a e i o u ari ane ello eri ino iva obo oli ora umi
    """
)
_COIN_TAILS = listed(
    """
    bex dax dor fin gon kan lis lor lux mar met mix na nex nor pan ra ris ron tek tis tra vex via x zen
    """
)
_COMPANY_TAILS = listed(
    """
    Labs Systems Foods Logistics Partners Group Motors Textiles Energy Software Bakery Shipping Optics
    Instruments Robotics Publishing Farms Breweries Airways Insurance Holdings Studios Ceramics Pharma
    Consulting
    """
)
_CODE_WORDS = listed(
    """
    Heron Falcon Otter Badger Lantern Anchor Comet Harbor Maple Cedar Willow Glacier Ember Quartz Cobalt Saffron
    Juniper Kestrel Lynx Marlin Nimbus Orchid Pelican Raven Sparrow Tundra Umbra Vortex Walnut Zephyr Basalt
    Copper Dune Eclipse Fjord Granite Hazel Indigo Jasper Kiln Lagoon Meadow Nectar Onyx Pebble Quiver Ripple
    Summit Thistle Velvet Beacon Canyon Driftwood Elm Fern Garnet Harvest Island Jade Kite Lark Mosaic Nettle
    Oak Prism Rook Sable Timber Violet Wren
    """
)
_CODE_SUFFIXES = ("", "", "", " Two", " Nine", " North", " South", " Blue", " Prime", " Zero")
_ADJECTIVES = listed(
    """
    Amber Bright Broken Calm Crimson Distant Eastern Empty Fading First Frozen Gentle Golden Green Hidden Hollow
    Iron Last Little Long Lost Northern Pale Patient Quiet Rapid Red Restless Second Secret Silent Silver
    Sleeping Slow Southern Steady Stone Swift Tall Velvet Western White Wild Winter
    """
)
_PRODUCT_TAILS = ("", "X", "S", "Mini ", "Pro ", "Mark ", "T", "Q", "Air ", "Series ")
_EVENT_TAILS = listed(
    """
    Festival, Regatta, Marathon, Book Fair, Summit, Conference, Market, Film Days, Chess Open, Hackathon, Trade
    Show, Jazz Nights, Symposium, Harvest Fair, Bike Race, Science Week, Choir Contest, Design Forum
    """,
    separator=",",
)
_DEVICE_TAILS = ("", "db", "web", "gpu", "cam", "node", "nas", "edge", "build", "mail")
_ROOM_HEADS = ("Room", "Hall", "Lab", "Studio", "Workshop", "Depot", "Warehouse", "Library", "Theatre", "Greenhouse")
_TITLE_NOUNS = listed(
    """
    Ferry Orchard Clockmaker Bridge Letter Garden Tide Window Map Mountain Violin Winter House River Lantern
    Island Stranger Harvest Key Train Shadow Mirror Library Lighthouse Painter Doctor Ladder Market Kitchen
    Telescope Road Promise Gardener Voyage Whistle Archive Compass Engine Feather Staircase
    """
)
_TEAM_TAILS = (
    "Rovers",
    "United",
    "Wolves",
    "Harriers",
    "Swifts",
    "Rowing Club",
    "Comets",
    "Foxes",
    "Athletic",
    "Bears",
)

SUBJECTS: dict[str, Draw] = {
    "person": person,
    "town": town,
    "company": company,
    "project": project,
    "product": product,
    "event": event,
    "ship": ship,
    "device": device,
    "room": room,
    "title": title,
    "team": team,
}
"""How to draw a subject, by its kind."""
