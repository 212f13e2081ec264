"""English words too common to tell what a text is about."""

STOP_WORDS = frozenset(
    """
    a about above after again against all also am an and any are as at be because been before being below between both
    but by can cannot could did do does doing down during each either else ever every few for from further had has have
    having he her here hers herself him himself his how i if in into is it its itself just me more most much must my
    myself neither no nor not of off on once only onto or other our ours ourselves out over own same shall she should so
    some such than that the their theirs them themselves then there these they this those through to too under until up
    upon very was we were what when where whether which while who whom whose why will with within without would you your
    yours yourself yourselves
    d ll m re s t ve
    aren couldn didn doesn don hadn hasn haven isn shouldn wasn weren wouldn
    """.split()
)
"""Casefolded. The last two lines are what remains of contractions split at the apostrophe. Words that also name
something are left out: may, might, us, won.
"""
