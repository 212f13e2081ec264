"""Words too common to tell what a text is about."""

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
"""English, casefolded. The last two lines are what remains of contractions split at the apostrophe. Words that also
name something are left out: may, might, us, won.
"""

OTHER_STOP_WORDS = {
    language: frozenset(words.split())
    for language, words in {
        "de": """
    aber als am an auch auf aus bei beim bin bist da damit dann das dass dein deine dem den der des die dies diese
    diesem diesen dieser dir doch du durch ein eine einem einen einer er es fuer fur gibt hab habe haben hat hatte
    hatten hier ich ihm ihn ihr ihre im in ins ist ja kann kein keine keinen man mein meine meinem meinen meiner mich
    mir mit nach nicht noch nur ob oder ohne schon sein seine seinen seiner sich sie sind so uber um und uns unser
    unsere unserem unseren vom von vor wann war waren warum was welche welchem welchen welcher welches wem wen wenn wer
    werden wie wieviel wir wird wo wurde zu zum zur""",
        "fr": """
    a ai as au aux avec avez avons c ce ces cet cette combien comment d dans de des du elle elles en est et eu il ils j
    je l la le les leur leurs lui m ma mais me mes moi mon n ne nos notre nous on ont ou par pas plus pour pourquoi qu
    quand que quel quelle quelles quels qui quoi s sa se ses si son sont sur t ta te tes toi ton tu un une vos votre
    vous y""",
        "es": """
    a al como con cual cuales cuando cuanta cuantas cuanto cuantos de del desde donde e el ella ellas ellos en entre era
    es esa ese eso esta estan este esto fue ha han hay he la las le les lo los mas me mi mis muy ni no nos nuestra
    nuestro o para pero por porque que quien quienes se ser si sin sobre son su sus te tiene tu tus un una uno unos y ya
    yo""",
        "ru": """
    а без бы был была были было в вам вас во вот все вы где да для до его ее еи если есть еще же за и из или им их к как
    какая какие какои какую ко когда кого кому кто ли мне мои моя мы на над нам нас наш наша наши не него нее неи нет ни
    но ну о об он она они оно от по под при про с сколько со так там то тот ты у уже чего чеи чем что чтобы эта эти это
    этот я""",
        "ar": """
    اذا ال الذي التي الى ان انا انت او اي اين عن على عند في كان كانت كل كم كيف لا لم لن له لها ليس ما ماذا متى مع من منذ
    نحن هذا هذه هل هم هو هي و يا""",
        "zh": "的 了 是 在 吗 呢 么 什 哪 谁 我 你 他 她 们 这 那 有",
        "ja": "の は か を に て と も へ",
    }.items()
}
"""As `text.words` returns them, so without accents: й is и, が is か."""
