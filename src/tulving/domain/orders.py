"""Orders that hide in episodes: why a rule that a model derived must be seen by a person before it counts.

Whoever can write into an episode could otherwise tell every later session what to do. No list of words recognises all
orders, so each check holds rather too much: a held rule costs a glance, a planted one the trust in all of them.
"""

import codecs
import re
import unicodedata
from collections.abc import Mapping, Sequence

from tulving.domain.layers import cut
from tulving.domain.stems import stem
from tulving.domain.stopwords import OTHER_STOP_WORDS, STOP_WORDS
from tulving.domain.text import words

COPIED = 0.7
"""From this share of a rule's words in one sentence of an episode on, the rule repeats it."""
LONGEST_QUOTE = 60

_STOP_WORDS = STOP_WORDS.union(*OTHER_STOP_WORDS.values())
_SENTENCE = re.compile(r"[.!?;:](?=\s|$)|[。！？；؟\n]")
_SPACES = re.compile(r"[^\S\n]+")
_LINE_BREAK = re.compile(r"[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_LOOKALIKES = str.maketrans("аеорсухікѕјӏԁɡοαεικνρτυх", "aeopcyxiksjldgoaeikvptux")
_DIGITS = str.maketrans("01345@$", "oieasas")
_TOKEN = re.compile(r"[\w@$]+")
_LATIN_NAME = re.compile(r"\b(?:LATIN|SYMBOL) .*\b([A-Z])$")
_HIDDEN = re.compile(
    r"(?<![A-Za-z0-9+/])(?=[A-Za-z+/]*[0-9+/]|[A-Za-z]*[a-z][A-Z])[A-Za-z0-9+/]{24}"  # base64
    r"|(?:[0-9A-Fa-f]{2}[ :]?){12}|(?:%[0-9A-Fa-f]{2}){4}|\\(?:u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2})"
    r"|&#x?[0-9A-Fa-f]{2,6};|[\U000e0000-\U000e007f]"
    r"|(?<!\w)(?:[^\W\d_][ .*_-]){4,}[^\W\d_](?!\w)"  # letters set apart
    r"|[\u0370-\u03ff\u0530-\u05ff\u0700-\u137f\u1780-\u17ff\uac00-\ud7a3]{2}"  # scripts without a list below
)


def _unless_after(said_before: str, pattern: str) -> str:
    return f"(?={pattern})" + "".join(rf"(?<!\b{word} )" for word in said_before.split()) + pattern


_AGENT = "(?:assistant|agent|model|ai|bot|chatbot|llm|butler|system|tulving|claude|gpt)"
_BRIEF = "(?:instructions?|directives?|prompts?|guidelines?|commands?)"
_PHRASES = (
    r"(?:ignore|disregard|override|bypass|overrule|jailbreak|pretend|role-?play|obey)\b",
    r"act (?:as|like)\b|developer mode\b|system prompt\b|as an? (?:ai|assistant|agent|llm|language model)\b",
    _unless_after("i he she it we they has have had was were is are almost nearly", r"(?:always|never)\b"),
    r"from (?:now|(?:today|here|this (?:day|moment|point)) on)\b|going forward\b|henceforth\b|in (?:the )?future\b",
    r"(?:remember|memori[sz]e|keep in mind|bear in mind)(?:,|:| (?:that|this|to|the)\b)|note (?:that|this|to)\b",
    r"(?:don'?t|do not) forget\b|(?:make|be) sure\b|please\b|kindly\b|between us\b|effective immediately\b",
    r"you(?:'re| (?:must|should|shall|are|will|need|have to|ought|may|can|cannot|can'?t))\b",
    rf"your (?:new |only |real |true )?(?:task|job|role|goal|purpose|duty|mission|rules?|{_BRIEF})\b",
    r"(?:do not|don'?t|must not|shall not) (?:tell|mention|say|reveal|ask|let|show|disclose|log|store|warn|report|use"
    r"|follow|trust|notify|inform|question|verify|check|give|allow|share|send|reply|answer|contact)\b",
    rf"(?:{_AGENT}|admin(?:istrator)?|developer|root|operator)(?: {_BRIEF}| note| message)?[\]>]? ?:",
    rf"(?:dear|hey|attention|note to|message to|{_BRIEF} (?:to|for)) (?:the |all |any |every |an? )?{_AGENT}s?\b",
    rf"(?:the|all|any|every|this|an?) {_AGENT}s? (?:must|should|shall|is to|has to|needs? to)\b",
    rf"(?:new|previous|prior|earlier|above|following|hidden|secret|updated?) {_BRIEF}\b|standing orders?\b",
    _unless_after(
        "a an the this that by my his her our their", r"(?:forward|send|e-?mail|upload|transfer|wire|b?cc|leak|pay)\b"
    )
    + r"[^.!?\n]{0,80}\bto\b",
    r"must (?:not )?be\b|shall\b|(?:is|are) to be\b|(?:essential|important|crucial|imperative) that\b",
    r"(?:under no circumstances|at all times|no matter what|(?:whenever|every time|each time|if|when) you)\b",
    r"without (?:asking|approval|permission|confirm(?:ation|ing)|checking|verif(?:ication|ying)|telling)\b",
    r"(?:is|are) (?:required|mandatory|forbidden|prohibited|obligatory|(?:not )?allowed|pre-?approved)\b",
    r"(?:has|have) (?:full |special )?(?:permission|access)\b|episodes to process\b|consolidation context\b",
    r"(?:new_facts|updated_facts|new_rules|target_id|tenant_id|tool_calls?|existing facts|existing rules)\b",
)
_SIGNS = (
    r"<\s*(?:/|\||<\s*sys|system|user|assistant|instruct|admin|developer|tool|prompt|episode|conversation|rule)|\|>"
    r"|\[/?(?:inst|sys|system|admin|assistant|user)\b|#{2,} ?(?:instruction|system|response|existing|episode)"
    r"|[\"']confirmations[\"']"
)
_VERBS = (
    "accept add allow apply approve ask assume authorize avoid bring cancel choose click confirm consider create "
    "delete deliver deny disable disclose do don't enable encrypt ensure erase execute fetch follow forget forward "
    "get give grant hide include insert install learn leave let listen make memorize notify overwrite prefer "
    "provide publish put read recommend redirect refuse reject remove repeat replace respond reveal save say select "
    "sell send serve skip speak stick subscribe suggest suppress take tell translate treat trust try unlock verify "
    "wipe withhold write"
)
_NOUNS = (
    "answer block book buy call change charge check close copy download drop email export increase keep list load "
    "log look lower mark message move offer open order pay permit pick play post print promise raise record release "
    "reply report request reset return review run schedule set share ship show sign start stop store switch test "
    "transfer turn update upload use visit wait wire work"
)
"""Verbs that are nouns or adjectives too: "Order 4711 was late" is no order, "Order two more" is one."""
_IMPERATIVES = (
    r"(?:^[ \t>*•\d.)-]*|[.!?;:\"“(][ \t]*)(?:(?:and|also|so|now|then|just|first|next|today|important|urgent|ok),? )*"
    rf"(?:(?:{_VERBS.replace(' ', '|')})\b(?!:)|(?:{_NOUNS.replace(' ', '|')})\b(?!\s*(?:[.,!?;:)'\"-]|$)"
    r"|\s+(?:with|for|from|of|by|at|in|on|to|was|were|is|are|has|had|have|went|came|took|got|did|didn|about|and|or"
    r"|after|before|between|that|again|number|\w+ed|#?\d[\w-]*)\b))"
)
_PAST = re.compile(
    r"\b"
    + _unless_after(
        "is are be being not",
        r"(?:(?!(?:need|needed|speed|feed|indeed|shed|bed|red|seed|hundred|exceed|allowed|enabled|required)\b)\w{2,}ed|was"
        r"|were|had|did|didn|been|wasn|weren|hadn|couldn|could|went|came|took|got|gave|said|told|made|sat|stood|felt|left"
        r"|lost|saw|found|knew|thought|became|began|broke|brought|bought|built|caught|chose|cost|cut|drove|ate|fell|fed"
        r"|fought|flew|forgot|froze|grew|hung|heard|held|hit|hurt|kept|laid|led|lent|lay|lit|meant|met|paid|put|rode|rang"
        r"|rose|ran|sent|set|shook|shut|sang|slept|sold|spent|spoke|stole|stuck|swam|taught|threw|understood|woke|wore|won"
        r"|(?:re)?wrote|shown|seen|done|taken|given|gone|written|broken)\b",
    )
)
"""A rule comes from an outcome, and an outcome is told in the past. Only English is looked at for this."""
SHORTEST_STATEMENT = 5
"""Words, from which on a sentence must tell what happened."""
_PHRASES_ELSEWHERE = {
    "de": """immer, nie, niemals, stets, ab sofort, von nun an, ab jetzt, ab heute, künftig, ignoriere, ignorieren sie,
    vergiss, merk dir, merke dir, denk daran, denke daran, du musst, du sollst, du bist, sie müssen, sie sollen, bitte,
    sag niemandem, verrate, anweisung, anweisungen, tu so, leite, sende, schicke, überweise, lösche, nutze, verwende,
    antworte, auf keinen fall, unbedingt, achte darauf""",
    "fr": """toujours, jamais, désormais, dorénavant, à partir de maintenant, ignorez, oublie, oubliez, n'oublie,
    souviens-toi, souvenez-vous, rappelle-toi, rappelez-vous, tu dois, vous devez, tu es, vous êtes, ne dis, ne dites,
    nouvelle instruction, nouvelles instructions, envoie, envoyez, transfère, transférez, il faut, fais comme, supprime,
    supprimez, efface, utilise, réponds, s'il te plaît, s'il vous plaît, veuillez""",
    "es": """siempre, nunca, jamás, a partir de ahora, de ahora en adelante, desde ahora, ignora, olvida, recuerda,
    recuerde, debes, tienes que, debe, eres, no le digas, no digas, nuevas instrucciones, nueva instrucción, envía,
    envíe, reenvía, transfiere, borra, elimina, finge, actúa como, hay que, por favor, responde""",
    "ru": """всегда, никогда, отныне, с этого момента, с сегодняшнего дня, впредь, игнорируй, игнорируйте, забудь,
    забудьте, запомни, запомните, помни, помните, ты должен, ты должна, вы должны, ты теперь, не говори, не говорите,
    никому не, новая инструкция, новые инструкции, инструкция, отправь, отправьте, отправляй, перешли, переведи, удали,
    притворись, действуй как, обязательно, пожалуйста, используй, отвечай""",
    "ar": """دائما, أبدا, من الآن فصاعدا, من الآن, من اليوم, تجاهل, تجاهلوا, انس, تذكر, تذكروا, لا تنس, يجب, عليك,
    أنت الآن, لا تخبر, تعليمات, أوامر, أرسل, أرسلوا, احذف, تظاهر, تصرف, استخدم, من فضلك, ممنوع, لا تقل""",
    "others": "sempre, altijd, nooit, zawsze, nigdy, negeer, ignoruj, ricorda, lembre, devi, zapamiętaj, onthoud",
}
_PHRASES_UNSPACED = {
    "zh": """总是, 总要, 永远, 从现在起, 从现在开始, 从今以后, 今后, 忽略, 无视, 记住, 记得, 你必须, 你应该, 你是,
    您必须, 务必, 不要, 不得, 禁止, 指令, 指示, 发送给, 发给, 转发, 转账, 删除, 假装, 扮演, 必须, 绝不, 一律, 请,
    總是, 永遠, 從現在起, 從今以後, 無視, 記住, 必須, 你應該, 不要告訴, 刪除, 轉發, 請""",
    "ja": """常に, いつも, 必ず, 決して, 今後は, これからは, 今から, 以後, 無視, 忘れて, 覚えて, しなさい, ください,
    べき, あなたは, ないで, 命令, 送って, 送信, 転送, 削除, ふりを, 振る舞, してはいけ, するな, せよ, すること""",
}
"""The commonest forms of orders in the other languages; in these two, words are not separated."""
_OF_RULE = {
    "it names a web or email address": r"\b(?:https?|ftp|file|data|javascript) ?:|\bwww\.|\w ?(?:@|[(\[]at[)\]]) ?\w"
    r"|\w\.(?:com|net|org|io|co|ru|cn|xyz|info|biz|dev|app|top|site|example|test|invalid|local)\b",
    "it contains a command": r"`|\$\(|&&|\|\s*(?:ba|z)?sh\b|\b(?:rm|chmod|chown|dd|kill) -"
    r"|\b(?:sudo|curl|wget|mkfs|eval|powershell)\b",
    "it asks for what a person should decide": r"\b(?:ignore|disregard|override|bypass|pretend|jailbreak|tenants?)\b"
    r"|<\s*/?\s*\w|<\||\[/?inst\b|_facts\b|_rules\b"
    r"|\b(?:do not|don'?t|never|without) (?:tell|mention|reveal|disclose|inform|notify|asking|approval|confirm)",
}


def _plain(text: str) -> str:
    """Folded, on lines with single spaces, without accents and without characters that are not seen."""
    letters = unicodedata.normalize("NFKD", _LINE_BREAK.sub("\n", text)).casefold().replace("’", "'")
    seen = (c for c in letters if c.isascii() or unicodedata.category(c) not in ("Mn", "Me", "Cf"))
    return _SPACES.sub(" ", "".join(seen))


def _any_of(phrases: Mapping[str, str]) -> str:
    return "|".join(re.escape(_plain(" ".join(each.split()))) for of in phrases.values() for each in of.split(","))


_ENGLISH = re.compile(rf"\b(?:{'|'.join(_PHRASES)})|{_SIGNS}")
_IMPERATIVE = re.compile(_IMPERATIVES, re.MULTILINE)
_ELSEWHERE = re.compile(rf"(?<!\w)[وف]?(?:{_any_of(_PHRASES_ELSEWHERE)})(?!\w)|{_any_of(_PHRASES_UNSPACED)}")
_RULE_PATTERNS = {reason: re.compile(pattern) for reason, pattern in _OF_RULE.items()}


def reason_to_review(rule: str, evidence: Sequence[str], beside: Sequence[str] = ()) -> str | None:
    """Why a person must see a derived rule before it is active, in a sentence; None if nothing speaks against it.

    `evidence` has the texts of the episodes that it was learned from, `beside` those that the model read with them: an
    order must not become a rule by naming an innocent episode as its source.
    """
    if not any(text.strip() for text in evidence):
        return "no episode shows where it comes from"
    for text in evidence:
        if found := _order(text):
            return f"an episode it was learned from gives an order: {_quote(found)}"
        if match := _HIDDEN.search(text):
            return f"an episode it was learned from hides its words: {_quote(text[match.start() :])}"
        if found := _statement(text):
            return f"an episode it was learned from says how things are to be, not what happened: {_quote(found)}"
    if match := _HIDDEN.search(rule):
        return f"it hides its words: {_quote(rule[match.start() :])}"
    plain = _plain(rule)
    for reason, pattern in _RULE_PATTERNS.items():
        if match := pattern.search(plain):
            return f"{reason}: {_quote(plain[match.start() :])}"
    return _copied(rule, [*evidence, *beside])


def _order(text: str) -> str | None:
    lines = _plain(text)
    plain = lines.replace("\n", " ")
    for pattern, where in ((_ENGLISH, plain), (_IMPERATIVE, lines), (_ELSEWHERE, plain)):
        if match := pattern.search(where):
            return where[match.start() :]
    latin = "".join(map(_lookalike, plain))
    spelled = _TOKEN.sub(lambda token: token[0] if token[0].isdecimal() else token[0].translate(_DIGITS), latin)
    for disguised in (latin, spelled, codecs.encode(latin, "rot13"), latin[::-1]):
        if disguised != plain and (match := _ENGLISH.search(disguised)):
            return disguised[match.start() :]
    return None


def _statement(text: str) -> str | None:
    """The first English sentence that does not tell what happened."""
    plain = _plain(text)
    found = set(words(plain))
    english = len(STOP_WORDS & found)
    if any(len(stops & found) > english for stops in OTHER_STOP_WORDS.values()) or not (english or plain.isascii()):
        return None
    sentences = _SENTENCE.split(plain)
    return next((s for s in sentences if len(words(s)) >= SHORTEST_STATEMENT and not _PAST.search(s)), None)


def _lookalike(letter: str) -> str:
    """The Latin letter that this one is a form of, or is taken for."""
    if letter.isascii():
        return letter
    named = _LATIN_NAME.search(unicodedata.name(letter, ""))
    return named[1].lower() if named else letter.translate(_LOOKALIKES)


def _copied(rule: str, evidence: Sequence[str]) -> str | None:
    own = _stems(rule)
    if not own:
        return "it says nothing that can be compared with its episodes"
    for text in evidence:
        for sentence in _SENTENCE.split(text):
            if len(own & _stems(sentence)) >= COPIED * len(own):
                return f"it repeats an episode instead of drawing a lesson from it: {_quote(sentence)}"
    return None


def _stems(text: str) -> set[str]:
    return {stem(word) for word in words(text) if word not in _STOP_WORDS}


def _quote(text: str) -> str:
    return f"“{cut(' '.join(text[: 2 * LONGEST_QUOTE].split()), LONGEST_QUOTE)}”"
