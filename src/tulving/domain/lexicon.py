"""Words that decide what two texts have to do with each other. General language, folded as `text.words` does it."""

from collections.abc import Iterator


def _groups(text: str) -> Iterator[list[str]]:
    """Groups of words, separated by semicolons."""
    return (group.split() for group in text.split(";") if group.strip())


NEGATIONS = frozenset(
    """
    no not never none nobody nothing nowhere neither nor without dont doesnt didnt isnt arent wasnt werent
    wont hasnt havent couldnt shouldnt wouldnt
    nicht nichts nie niemals niemand kein keine keinen keinem keiner keines ohne weder
    ne pas jamais rien aucun aucune sans ni nunca jamas nada nadie ningun ninguna ninguno tampoco sin
    nao nem ninguem nenhum nenhuma sem non niente nessuno nessuna senza niet geen nooit niets zonder nigdy bez
    inte aldrig inget ikke aldri degil yok
    не нет ни никогда ничего никто без لا لم لن ليس ليست بدون 不 没 沒 無 无 非 未 勿
    """.split()
)
"""Unseen, one of these would make an opposite look the same: so the common ones of other languages are here too."""

AFTER_NEGATION = frozenset("longer more any anymore".split())
"""Belongs to a negation before it: "no longer", "not any more"."""

EMPTY = frozenset("user users".split())
"""A note is about the user unless it says otherwise."""

DETERMINERS = frozenset("a an the no some one this that his her my your their our its several".split())
"""Before a noun: it speaks of certain things, not of all of a kind."""

LINKS = {
    word: group[0]
    for group in _groups(
        """
    in into inside within; on onto upon; to toward towards; near beside; over above; under below beneath; about;
    across; after; against; along; among; around; at; before; behind; between; beyond; down; during; for; from; of; off;
    out; outside; past; since; through; until; up; via; with
    """
    )
    for word in group
}
"""How things stand to each other. Two texts that each have one which the other lacks speak of different relations."""

PAST = frozenset("was were had did".split())
FRAMES = frozenset(
    """
    used will would shall should can could may might must want wants wanted plan plans planned hope hopes try tries
    if unless when whenever until because although though or than only except instead but almost nearly barely hardly
    rarely seldom sometimes maybe perhaps possibly probably supposedly once formerly previously former ex fake less
    least more most too this these next last previous
    """.split()
)
"""Possibility, condition, restriction, reference: what is said under another frame is not the same."""

LIMITING = frozenset(
    """
    allerg intoler avoid hate dislik detest refus reject forbid forbidden ban prohibit stop quit ceas cancel fail deni
    deny lack lose lost remov delet block prevent ignor exclud
    """.split()
)
"""Stems. A text with one of these is not made fuller by further words: who avoids red meat may eat meat."""

DENIALS = {
    denial: word
    for denial, word in _groups(
        """
    dislik like; disagre agre; disabl enabl; disapprov approv; disallow allow; disconnect connect; unabl abl; fals true;
    unavail avail; unhappi happi; unmarri marri; untru true; incorrect correct; invalid valid; impossibl possibl;
    unimport import; unread read; unpaid pai; unlock lock; uninstal instal; unsubscrib subscrib
    """
    )
}
"""Stems, and what they deny."""

NUMBERS = {
    word: str(number)
    for number, word in enumerate(
        """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen twenty
    """.split()
    )
} | {"both": "2"}

PLURALS = {
    plural: one
    for plural, one in _groups(
        "children child; men man; women woman; people person; feet foot; teeth tooth; mice mouse"
    )
}

VERBS = {
    form: verb
    for verb, *forms in _groups(
        """
    begin began begun; bite bit bitten; blow blew blown; break broke broken; bring brought; build built; buy bought;
    catch caught; choose chose chosen; come came; do done; draw drew drawn; drink drank drunk; drive drove driven;
    eat ate eaten; fall fell fallen; feed fed; fight fought; fly flew flown; forget forgot forgotten; get got gotten;
    give gave given; go went gone; grow grew grown; hang hung; hear heard; hide hid hidden; hold held; keep kept;
    know knew known; lay laid; lead led; lend lent; lose lost; make made; mean meant; meet met; pay paid;
    ride rode ridden; ring rang rung; rise risen; run ran; say said; see seen; sell sold; send sent; shake shook shaken;
    shoot shot; show shown; sing sang sung; sink sank sunk; sit sat; sleep slept; speak spoke spoken; spend spent;
    stand stood; steal stole stolen; swim swam swum; take took taken; teach taught; tear tore torn; tell told;
    think thought; throw threw thrown; understand understood; wake woke woken; wear wore worn; win won;
    write wrote written
    """
    )
    for form in forms
}
"""Irregular forms of the past."""

UNCHANGED = frozenset("cut hit hurt let put read set shut spread".split())
"""Verbs whose form of the past is that of the present."""

SYNONYMS = tuple(
    frozenset(group)
    for group in _groups(
        """
    man guy gentleman; woman lady; child kid; someone somebody person; mum mom mother; dad father; doctor physician;
    boss manager; colleague coworker; client customer; policeman cop; baby infant; group bunch; crowd mob; big large
    huge; small little tiny; old elderly; quick fast rapid; quickly rapidly; glad happy; ill sick; angry furious; tired
    exhausted; quiet silent; loud noisy; smart clever; difficult hard; simple easy; several many; often frequently;
    beautiful pretty; thin slim; grey gray; colour color; favourite favorite; centre center; theatre theater; car auto
    automobile; bike bicycle; motorbike motorcycle; plane airplane aircraft; truck lorry; phone telephone; tv
    television; photo picture photograph; film movie; shop store; sofa couch; home house; flat apartment; lift elevator;
    sidewalk pavement; floor ground; stairs staircase; rock stone boulder; hill slope;
    beach shore coast; forest woods; sea ocean; river stream; yard garden; lawn grass; meadow field; rabbit bunny;
    jacket coat; trousers pants; bag purse; glasses spectacles; carpet rug; cup mug; pan skillet; rope cord; gift
    present; rubbish garbage trash; trip journey; holiday vacation; company firm; salary wage; bill invoice; error
    mistake; problem issue; goal aim; folder directory; repository repo; application app; database db; configuration
    config; documentation docs; speak talk; jump leap hop; walk stroll; run jog; climb ascend; begin start; finish
    complete; buy purchase; cook prepare; cut slice chop; mend repair fix; fire shoot; throw toss; hit strike; fight
    wrestle; push shove; pull drag; lift raise; shout yell; cry weep; laugh giggle; smile grin; hug embrace; like enjoy;
    prefer favour favor; need require; help assist; reply answer respond; choose select pick; close shut; receive
    obtain; make create; use utilize; allow permit; keep retain; live reside; spread smear; mix stir blend; break crack;
    sleep nap doze; rest relax; practise practice train; eat consume
    """
    )
)

BROADER = tuple(
    (general, frozenset(special))
    for general, *special in _groups(
        """
    person man woman boy girl child kid guy lady adult teenager musician singer dancer player athlete runner rider
    driver cyclist surfer swimmer hiker climber soldier worker student teacher doctor nurse chef cook farmer; someone
    man woman boy girl child kid guy lady; somebody man woman boy girl child kid guy lady; child boy girl toddler baby;
    kid boy girl toddler baby; animal dog cat horse bird fish cow pig sheep goat monkey rabbit elephant tiger lion bear
    mouse squirrel fox wolf deer frog snake turtle panda rhino zebra giraffe kangaroo hamster puppy kitten; dog puppy;
    cat kitten; horse pony; bird duck eagle parrot swan owl gull crow chicken; insect fly bee ant spider butterfly;
    instrument guitar piano violin drum flute trumpet cello keyboard harp saxophone clarinet organ; vehicle car truck
    bus van motorcycle bike bicycle tractor jeep; weapon gun pistol rifle shotgun sword knife bow; plant tree flower
    bush cactus; computer laptop; tool hammer saw drill axe; toy doll ball puzzle; drink tea coffee beer; food meat
    bread cheese pizza rice pasta soup chicken cake sandwich tortilla; fruit apple banana orange pear lemon; vegetable
    potato tomato onion carrot cucumber eggplant pepper cabbage; meat beef pork chicken; container box bottle bowl pot
    bucket jar basket; water river lake sea ocean pool pond; building house church tower; clothes shirt jacket dress
    trousers sweater coat; move walk run jump; walk hike march stroll; run sprint race; fight box wrestle; cut slice
    chop dice peel; cook fry boil bake grill roast; look stare gaze glance; clean wash scrub
    """
    )
)
"""A general word, and some that say more than it."""
