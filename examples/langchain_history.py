"""A chat history for LangChain that stays, and that can be searched.

    pip install . langchain-core        (in a clone: docs/install.md says why)
    python examples/langchain_history.py

Put your own chat model in place of the fake one. The store is the file memory.db in the current folder.
"""

from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage

from tulving import open_memory_sync
from tulving.integrations.langchain import TulvingChatMessageHistory

model = FakeListChatModel(responses=["Hello Ada!", "Then I will suggest trains."])

with open_memory_sync("memory.db") as memory:
    ada = memory.bind(user_id="ada")
    for said in ("Hello, I am Ada", "I never fly, I take the train"):
        history = TulvingChatMessageHistory(ada, session_id="monday")
        question = HumanMessage(said)
        answer = model.invoke([*history.messages, question])
        history.add_messages([question, answer])

    for message in TulvingChatMessageHistory(ada, session_id="monday").messages:
        print(f"{message.type}: {message.text}")
    print("found:", ada.recall("how does Ada travel by train?", limit=1)[0].item.content)

# Prints:
# human: Hello, I am Ada
# ai: Hello Ada!
# human: I never fly, I take the train
# ai: Then I will suggest trains.
# found: I never fly, I take the train
