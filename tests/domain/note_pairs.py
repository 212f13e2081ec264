"""Pairs of notes as agents write them, in families: what they have to do with each other, and which says more."""

DIFFERENT = {
    "parts of names": """
        Lives at 5 Mill Street | Lives at 5 Mill Road
        Works at the Big Shop | Works at the Large Shop
        Chose the Large plan | Chose the Big plan
        """,
    "times": """
        Meeting at 3 pm | Meeting at 4 pm
        Meeting on Monday at 10 | Meeting on Tuesday at 10
        Wakes up at 6:30 | Wakes up at 7:30
        Birthday is on 3 May | Birthday is on 5 May
        The user was born in May | The user was born in June
        Born in 1984 | Born in 1985
        The deadline is this week | The deadline is next week
        The user is on holiday until Monday | The user is on holiday until Friday
        The backup runs daily | The backup runs weekly""",
    "places": """
        Lives in Paris | Lives in Berlin
        lives in paris | lives in berlin
        The user moved to Paris | The user moved from Paris
        The flight goes from Oslo to Rome | The flight goes from Rome to Oslo
        The server in Frankfurt is down | The server is down
        The user lives near the station | The user lives far from the station""",
    "numbers": """
        Has 2 cats | Has 3 cats
        Has one cat | Has two cats
        The test suite takes ten minutes | The test suite takes two minutes
        The user is 34 years old | The user is 35 years old
        The budget is $500 | The budget is $5000
        The discount is 10% | The discount is 10
        The temperature is -5 | The temperature is 5
        Keep the load < 5 | Keep the load > 5
        Rent is 900 euros | Rent is 950 euros""",
    "codes": """
        Order 4711 shipped | Order 4712 shipped
        Order 4711 shipped | The order shipped
        The invoice 2024-117 was paid | The invoice 2024-118 was paid
        The server runs Python 3.11 | The server runs Python 3.12
        Version 1.2.0 is deployed | Version 1.2.1 is deployed
        Build failed on commit a1b2c3 | Build failed on commit d4e5f6
        The API key is in vault A | The API key is in vault B
        Takes vitamin C every day | Takes vitamin D every day
        The user knows C | The user knows C++
        The user writes C# at work | The user writes C at work
        Contact is anna@example.com | Contact is bob@example.com
        The file is /etc/hosts | The file is /etc/passwd
        Approved 👍 | Approved 👎""",
    "names": """
        Project Apollo uses Rust | Project Hermes uses Rust
        Project Apollo uses Rust | Project Apollo uses Go
        Project Apollo uses Rust | The project uses Rust
        Tests run on Linux and Windows | Tests run on Linux and macOS
        The user's daughter Mia plays tennis | The user's daughter Eva plays tennis
        Has a meeting with Dr. Smith | Has a meeting with Dr. Jones""",
    "whom it is about": """
        Anna likes tea | The user likes tea
        Anna likes tea | Likes tea
        The boss likes tea | The user likes tea
        The wife is vegetarian | The user is vegetarian
        The user's wife is vegetarian | The user is vegetarian
        User's sister likes tea | User likes tea
        The child of Anna is ill | Anna is ill
        My brother works at Siemens | Your brother works at Siemens
        He likes jazz | She likes jazz
        The user thinks that Bob is ill | Bob is ill""",
    "who does it to whom": """
        Anna manages Bob | Bob manages Anna
        Anna is managed by Bob | Anna manages Bob
        Anna is being managed | Anna manages
        The dog bit the man | The man bit the dog
        I like you | You like me
        Server alpha replicates to server beta | Server beta replicates to server alpha
        The user prefers tea over coffee | The user prefers coffee over tea
        The user is taller than Bob | Bob is taller than the user""",
    "other things": """
        Allergic to nuts | Allergic to milk
        The user is allergic to peanuts and drinks tea at noon | The user is allergic to walnuts and drinks tea at noon
        Prefers window seats on flights | Prefers aisle seats on flights
        Use tabs in Python files | Use spaces in Python files
        The staging database is read only | The production database is read only
        The user is a student of physics | The user is a teacher of physics
        The user likes football | The user plays football
        The user's left knee hurts | The user's right knee hurts
        The user likes coffee | The user likes coffee ice cream
        The user has a dog at home | The user has a dog allergy at home
        The user sold the wheels of the car | The user sold the car
        The user gave the dog a bath | The user gave the dog""",
    "all of a kind": """
        Allergic to milk | Allergic to coconut milk
        The user is allergic to the milk | The user is allergic to the milk of goats
        The user likes wine | The user likes red wine
        The user likes animals | The user likes dogs
        The user does not eat meat | The user does not eat the meat of pigs
        Vegetarian | Vegetarian in the office""",
    "frames": """
        The user lived in Paris | The user lives in Paris
        The user was a teacher | The user is a teacher
        The user bought a car | The user buys a car
        The user will move to Rome | The user moved to Rome
        The user wants to learn Spanish | The user learned Spanish
        The user can swim | The user must swim
        The user drinks coffee | The user rarely drinks coffee
        The user drinks coffee | The user stopped drinking coffee
        Anna forgot to pay the rent | Anna paid the rent
        Prices are expected to rise | Prices rise
        Prices are expected to rise | The prices rise
        Drinks tea or coffee | Drinks tea and coffee
        The meeting is before lunch | The meeting is after lunch
        If it rains the user takes the bus | The user takes the bus
        Only Anna may deploy | Anna may deploy""",
    "questions and double negation": """
        Does the user like tea? | The user likes tea
        What the user likes | The user likes
        Likes tea？ | Likes tea
        The user is not unhappy | The user is happy
        The user doesn't dislike jazz | The user likes jazz
        Nobody has no car | Nobody has a car""",
    "other languages": """
        Kunde wohnt in Hamburg | Kunde wohnt in Bremen
        Der Zug geht nach Berlin | Der Zug geht von Berlin
        Kaffee | der die das
        Er wohnt in Berlin | Er wohnt vielleicht in Berlin
        L'utilisateur habite à Lyon | L'utilisateur habite à Nice
        El usuario vive en Madrid | El usuario vive en Sevilla
        Lubi kawe | Lubi zimna kawe
        用户住在北京 | 用户住在上海
        我喜欢咖啡 | 你喜欢咖啡
        肉を食べる | 肉を食べない
        犬が好きだ | 犬が好きではない""",
}
"""Of these not one may be called the same or the opposite: one of two facts would go for nothing."""

SAME = """
    Prefers dark mode | The user prefers dark mode | -
    Prefers dark mode | Prefers dark mode in the editor | second
    The user likes tea | User likes tea. | -
    The user likes “tea” | The user likes tea! | -
    The user lives in Paris with two cats | The user lives in Paris | first
    Lives in Berlin | The user lives in Berlin | -
    Likes hiking | The user likes to hike | -
    The user has 2 cats | The user has two cats | -
    The user has “2” (cats). | The user has 2 cats - | -
    The user enjoys jazz | The user likes jazz | -
    The user owns a small car | The user owns a little car | -
    The user bought a bicycle | The user bought a bike | -
    The report was written by Anna | Anna wrote the report | -
    Bob manages Anna | Anna is managed by Bob | -
    The onion is being cut by a man | A man is cutting the onion | -
    The song is sung by a group of children | A group of children is singing the song | -
    A man is talking in the garden | A guy is speaking in the garden | -
    The user is hiking in the Alps | The user is walking in the Alps | first
    One man sits in the garden | A man sits in the garden | first
    Two small cats live in the house | Two cats live in the house | first
    Both cats in the house are ill | Two cats in the house are ill | -
    The keys go into the box | The keys go in the box | -
    It's raining at home | It is raining at home | -
    At home I drink tea | at home i drink tea | -
    The server is monitored by Grafana | Grafana monitors the server | -
    The user lives in a house that is small | The user lives in a small house | -
    The user works remotely from home | The user works from home | first
    Drinks coffee every morning | Drinks coffee | first
    The user keeps a dog at home | The user keeps an animal at home | first
    The user plays the guitar | The user plays an instrument | first
    The user's apartment is in Lyon | The user's flat is in Lyon | -
    The user’s flat is in Lyon | The user's flat is in Lyon | -
    The user does not eat meat | User doesn't eat meat | -
    User is a vegetarian | The user is vegetarian | -
    The user takes the train to work | The user takes the train to work every day | second
    The parcel is near the door | The parcel is next to the door | -
    Der Nutzer mag Kaffee | Nutzer mag Kaffee | -
    Lubi kawe | lubi kawe. | -
    用户住在北京 | 用户住北京 | -
    用户住在北京，喜欢茶。 | 用户住北京、喜欢茶 | -
"""

OPPOSITE = """
    User is vegetarian | User is no longer vegetarian
    User is vegetarian | The user isn't a vegetarian
    User is vegetarian | The user isn’t a vegetarian
    The user eats meat | The user does not eat meat
    The user eats meat | The user doesnt eat meat
    The user likes cilantro | The user dislikes cilantro
    The user drinks alcohol | The user never drinks alcohol
    The user eats meat at the weekend | The user never eats meat
    The feature flag is enabled | The feature flag is disabled
    The user works at Acme | The user doesn't work at Acme any more
    The user has a car | The user has no car
    The user can drive | The user can't drive
    The user can drive | The user cannot drive
    The user will come | The user won't come
    Someone reads the logs | Nobody reads the logs
    A person reads the logs | No one reads the logs
    Tests are required before a merge | Tests are not required before a merge
    User likes tea with sugar | User likes tea without sugar
    Der Nutzer mag Kaffee | Der Nutzer mag keinen Kaffee
    Der Nutzer raucht | Der Nutzer raucht nicht
    Er trinkt Kaffee mit Milch | Er trinkt nie Kaffee mit Milch
    L'utilisateur mange de la viande | L'utilisateur ne mange pas de viande
    Il fume | Il ne fume plus
    Il aime le vin | Il n'aime jamais le vin
    El usuario come carne | El usuario no come carne
    El usuario come carne | El usuario nunca come carne
    Пользователь ест мясо | Пользователь не ест мясо
    Lubi kawe | Nie lubi kawe
    用户喜欢咖啡 | 用户不喜欢咖啡
    他有猫 | 他没有猫
"""

MISSED = """
    The user's favourite drink is tea | The favourite drink of the user is tea
    The user has a red car | The user has a car
    The deployment is on Friday | The deployment's on Friday
    Takes sugar in coffee | Takes coffee without sugar
    The user has stopped smoking | The user smokes
"""
"""What a reader would call the same or the opposite, and `compare` does not: the price of the caution."""


def pairs(text: str) -> list[list[str]]:
    return [[part.strip() for part in line.split(" | ")] for line in text.strip().splitlines()]
