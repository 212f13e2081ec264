"""A language model behind `POST /v1/chat/completions`, as OpenAI, Ollama, vLLM, llama.cpp and others offer it."""

from typing import Any, ClassVar

from tulving.providers.json_endpoint import bearer
from tulving.providers.model_endpoint import Answer, ModelEndpoint, at


class ChatEndpoint(ModelEndpoint):
    """The `openai` dialect. OpenAI's newer models refuse two of the parameters that all others need or know."""

    HOME, KEY_VARIABLE, PATH = "https://api.openai.com/v1", "OPENAI_API_KEY", "chat/completions"
    INSTEAD: ClassVar = {"max_tokens": "max_completion_tokens", "temperature": "", "stream_options": ""}

    def _body(self, prompt: str, max_tokens: int) -> dict[str, Any]:
        body = {
            "model": self._model,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": max_tokens,
            "temperature": 0,
            "stream": self._stream,
        }
        return body | ({"stream_options": {"include_usage": True}} if self._stream else {})

    def _headers(self, key: str) -> dict[str, str]:
        return bearer(key)

    def _take(self, answer: Answer, event: Any) -> None:
        choice = at(event, "choices", 0)
        part = at(choice, "message") or at(choice, "delta")
        if isinstance(part, dict):
            answer.add(part.get("content") or "")
        answer.end(at(choice, "finish_reason"), "length")
        answer.count(at(event, "usage", "prompt_tokens"), at(event, "usage", "completion_tokens"))
