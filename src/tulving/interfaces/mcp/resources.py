"""What a person can attach to a conversation: the profile, a context, one memory."""

import json
from urllib.parse import unquote, urlsplit

from mcp_types import ReadResourceResult, Resource, ResourceTemplate, TextResourceContents

from tulving.interfaces import answers
from tulving.interfaces.mcp.asking import ask, refused
from tulving.interfaces.principal import Principal
from tulving.services.operations import OPERATIONS
from tulving.settings import MemoryModuleConfig

SCHEME = "tulving"
MARKDOWN, JSON = "text/markdown", "application/json"
RESOURCES = (
    Resource(
        uri=f"{SCHEME}://profile",
        name="profile",
        title="Profile",
        description="What is known about the user: what they do now, their history, and facts by confidence",
        mime_type=MARKDOWN,
    ),
    Resource(
        uri=f"{SCHEME}://context",
        name="context",
        title="Context",
        description="What an agent should know when a session starts: the user's profile, facts, rules and episodes",
        mime_type=MARKDOWN,
    ),
)
TEMPLATES = (
    ResourceTemplate(
        uri_template=f"{SCHEME}://context/{{topic}}",
        name="context of a topic",
        title="Context of a topic",
        description="The same for a session about this topic",
        mime_type=MARKDOWN,
    ),
    ResourceTemplate(
        uri_template=f"{SCHEME}://memory/{{kind}}/{{id}}",
        name="memory",
        title="Memory",
        description="One memory as a whole, by its kind (episode, fact or rule) and its id",
        mime_type=JSON,
    ),
)
KNOWN = ", ".join([*(each.uri for each in RESOURCES), *(each.uri_template for each in TEMPLATES)])
AGENT = "mcp"
"""In whose name a context is read where no agent is configured: only global memories are in it."""


async def read(principal: Principal, config: MemoryModuleConfig, uri: str) -> ReadResourceResult:
    """The contents of a resource, as far as the principal may see it."""
    match _parts(uri):
        case ["profile"]:
            kind, text = MARKDOWN, await ask(principal, "profile_get", {})
        case ["context"]:
            about = " ".join(filter(None, (config.project, config.user_id))) or "user"
            kind, text = MARKDOWN, await _context(principal, config, about)
        case ["context", topic]:
            kind, text = MARKDOWN, await _context(principal, config, topic)
        case ["memory", memory_type, memory_id]:
            found = await ask(principal, "memory_get", {"memory_type": memory_type, "memory_id": memory_id})
            if found is None:
                raise refused(f"there is no {memory_type} {memory_id}")
            memory = answers.answer(OPERATIONS["memory_get"], found, "compact")["memory"]
            kind, text = JSON, json.dumps(memory, ensure_ascii=False, indent=1)
        case _:
            raise refused(f"there is no resource {uri!r:.200}; there are {KNOWN}")
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=kind, text=text)])


async def _context(principal: Principal, config: MemoryModuleConfig, topic: str) -> str:
    agent = config.scope or config.actor or AGENT
    return await ask(principal, "memory_context", {"trigger_prompt": topic, "butler": agent})


def _parts(uri: str) -> list[str]:
    """The parts of a URI of ours; none if it is another's."""
    try:
        split = urlsplit(uri)
    except ValueError:
        return []
    if split.scheme != SCHEME or split.query or split.fragment:
        return []
    return [unquote(part) for part in (split.netloc, *split.path.split("/")[1:])]
