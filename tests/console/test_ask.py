"""Ask: three answers to one question, why each memory is among them, and that looking leaves no trace."""


async def test_a_question_is_answered_in_three_ways(visitor, memory):
    await memory.store_fact("Mira", "home", "lives in Porto")
    await visitor.open("/console/ask", q="Where does Mira live?")
    assert visitor.status == 200, visitor.text
    for heading in ("Search", "Recall", "Context"):
        assert heading in visitor.text
