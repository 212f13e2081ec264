"""Texts that are the same on every machine: English-like word frequencies, 25 words a text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from random import Random

from tulving import NewEpisode, NewFact, NewRule

Offer = NewFact | NewEpisode | NewRule

TENANTS = 100
WORDS_PER_TEXT = 25
NAMES = {"Marta": 0.6, "Pavel": 0.33}
VOCABULARY_SIZE = 20_000

# The most frequent words of English carry no meaning; then come common ones, then 19,600 made-up ones.
FUNCTION_WORDS = """the of and to a in is it that was for on are as with they be at this from have or by one had not but
what all were when we there can an your which their if will how about many then them these so some her would him into
has more two no could my than been who its now did get may he she me you our out up do his other each only over such
after also most where through before must between under""".split()
COMMON_WORDS = """time year people way day man thing woman life child world school state family student group country
problem hand part place case week company system program question work government number night point home water room
mother area money story month lot right study book eye job word business issue side kind head house service friend
father power hour game line end member law car city community name president team minute idea body information back
parent face level office door health person art war history party result change morning reason research girl guy moment
air teacher force education foot boy age policy process music market sense nation plan college interest death experience
effect use class control field development role effort rate heart drug show leader light voice wife police mind price
report decision son view relationship town road arm difference value building action season society tax director
position player record paper space ground form event official matter center couple site project activity star table need
court oil situation cost industry figure street image phone data picture practice piece land product doctor wall patient
worker news test movie north love step garden coffee window letter summer winter bread river mountain train ticket
kitchen dinner birthday doctor hospital bank account contract invoice meeting server backup release version branch
customer order delivery address password printer keyboard screen battery camera bicycle engine wheel bridge airport
hotel flight weather rain snow storm tree flower dog cat horse bird fish apple lemon cheese sugar salt pepper recipe
violin piano guitar song concert museum theater painting poem novel chapter language grammar translation
dictionary""".split()


def _made_up() -> Iterator[str]:
    syllables = [
        onset + vowel for onset in "b d f g k l m n p r s t v z br dr gr kl pl st tr".split() for vowel in "aeiou"
    ]
    for parts in product(syllables, repeat=3):
        yield "".join(parts)


def vocabulary() -> list[str]:
    """All words, the most frequent first."""
    known = list(dict.fromkeys(FUNCTION_WORDS + COMMON_WORDS))
    made_up = list(_made_up())
    Random(1).shuffle(made_up)
    return known + made_up[: VOCABULARY_SIZE - len(known)]


@dataclass(frozen=True, slots=True)
class TenantTexts:
    """What one tenant stores: 40 % facts, 40 % episodes, 20 % rules."""

    tenant: str
    facts: list[NewFact]
    episodes: list[NewEpisode]
    rules: list[NewRule]

    @property
    def texts(self) -> list[str]:
        return [offer.content for offer in (*self.facts, *self.episodes, *self.rules)]


class Corpus:
    """A seeded source of texts and queries. `plain` leaves the made-up words out."""

    def __init__(self, seed: int = 7, plain: bool = False) -> None:
        self._random = Random(seed)
        words = vocabulary()
        self._words = words[: len(set(FUNCTION_WORDS + COMMON_WORDS))] if plain else words
        self._weights = list(accumulate(1 / (rank + 2.7) for rank in range(1, len(self._words) + 1)))
        self._empty = frozenset(FUNCTION_WORDS)

    def text(self) -> str:
        return " ".join(self._random.choices(self._words, cum_weights=self._weights, k=WORDS_PER_TEXT))

    def texts(self, count: int) -> list[str]:
        return [self.text() for _ in range(count)]

    def facts(self, count: int) -> list[NewFact]:
        """Facts with a key of their own each: none replaces another."""
        return [
            NewFact(subject=self._random.choice(COMMON_WORDS), predicate=f"property_{number}", content=text)
            for number, text in enumerate(self.texts(count))
        ]

    def episodes(self, count: int) -> list[NewEpisode]:
        return [NewEpisode(content=text, butler="assistant") for text in self.texts(count)]

    def rules(self, count: int) -> list[NewRule]:
        return [NewRule(content=text) for text in self.texts(count)]

    def tenant(self, name: str, count: int) -> TenantTexts:
        facts, episodes = count * 2 // 5, count * 2 // 5
        return TenantTexts(name, self.facts(facts), self.episodes(episodes), self.rules(count - facts - episodes))

    def query(self, texts: Sequence[str]) -> str:
        """Four to eight words of one of the texts, at least two of which mean something."""
        while True:
            words = list(dict.fromkeys(self._random.choice(texts).split()))
            chosen = self._random.sample(words, min(len(words), self._random.randint(4, 8)))
            if sum(word not in self._empty for word in chosen) >= 2:
                return " ".join(chosen)


class People(Corpus):
    """Texts about people, of whom one occurs in most and another in a third: words that hardly tell texts apart."""

    def text(self) -> str:
        names = [name for name, share in NAMES.items() if self._random.random() < share]
        return " ".join([*names, super().text()])


def worded(offer: Offer) -> str:
    """All words of an offer, as they are indexed."""
    return f"{offer.subject} {offer.predicate} {offer.content}" if isinstance(offer, NewFact) else offer.content


def tenant_name(number: int) -> str:
    return f"tenant-{number:03}"
