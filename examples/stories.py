"""Small texts for a training that anyone can run: sentences of a made-up village, and pairs that say the same.

Everything is drawn from the lists below by a seed, so the text is nobody's and always the same.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

PEOPLE = {
    "miller": "man of the mill", "baker": "maker of bread", "fisher": "catcher of fish", "weaver": "maker of cloth",
    "smith": "worker in iron", "teacher": "master of the school", "doctor": "healer", "sailor": "seaman",
    "gardener": "keeper of roses", "hunter": "tracker of deer", "painter": "artist", "singer": "voice of the choir",
}  # fmt: skip
"""Who there is, and how else one may call them; likewise below."""

KINDS = {
    "old": "aged", "young": "youthful", "tall": "long-legged", "quiet": "silent", "clever": "bright", "kind": "gentle",
    "proud": "haughty", "careful": "wary", "cheerful": "merry", "tired": "weary",
}  # fmt: skip
THINGS = {
    "boat": "small ship", "lamp": "light", "coat": "jacket", "horse": "mare", "clock": "timepiece", "drum": "tabor",
    "mirror": "looking glass", "violin": "fiddle", "blanket": "cover", "wagon": "cart", "bell": "chime",
}  # fmt: skip
COLOURS = {"red": "crimson", "blue": "azure", "green": "emerald", "grey": "ashen", "black": "dark", "white": "pale"}
PLACES = {
    "market": "stalls", "harbour": "docks", "bridge": "river crossing", "church": "chapel", "forest": "woods",
    "field": "meadow", "well": "spring", "inn": "tavern",
}  # fmt: skip
DEEDS = {"sold": "bought", "gave": "received", "lent": "borrowed", "showed": "saw"}
TIMES = {
    "in the morning": "at dawn", "at noon": "at midday", "in the evening": "at dusk", "on Sunday": "on the day of rest",
}  # fmt: skip


@dataclass(frozen=True)
class Event:
    """Who did what to whom, where and when."""

    giver: str
    taker: str
    thing: str
    deed: str
    place: str
    time: str

    @property
    def active(self) -> str:
        """The giver first."""
        return f"The {self.giver} {self.deed} a {self.thing} to the {self.taker} at the {self.place} {self.time}."

    @property
    def other(self) -> str:
        """The taker first, in other words."""
        kind, giver = self.giver.split()
        colour, thing = self.thing.split()
        taken = f"{DEEDS[self.deed]} the {COLOURS[colour]} {THINGS[thing]} of the {KINDS[kind]} {PEOPLE[giver]}"
        return f"By the {PLACES[self.place]}, {TIMES[self.time]}, the {PEOPLE[self.taker]} {taken}."


def event(draw: random.Random) -> Event:
    """One event by chance."""
    giver, taker = draw.sample(list(PEOPLE), 2)
    kind, colour, thing, deed, place, time = (
        draw.choice(list(words)) for words in (KINDS, COLOURS, THINGS, DEEDS, PLACES, TIMES)
    )
    return Event(f"{kind} {giver}", taker, f"{colour} {thing}", deed, place, time)


def story(lines: int, seed: int = 0) -> str:
    """Running text: a sentence a line, an empty line after every few."""
    draw = random.Random(seed)
    told = []
    for number in range(lines):
        one = event(draw)
        told.append(draw.choice((one.active, one.other)))
        if number % 6 == 5:
            told.append("")
    return "\n".join(told) + "\n"


def pairs(count: int, seed: int = 1) -> list[tuple[str, str]]:
    """Sentences that say the same in two ways."""
    draw = random.Random(seed)
    made = [event(draw) for _ in range(count)]
    return [(one.active, one.other) for one in made]
