"""A language model behind Anthropic's `POST /v1/messages`."""

from typing import Any

from tulving.providers.model_endpoint import Answer, ModelEndpoint, at


class Anthropic(ModelEndpoint):
    """The `anthropic` dialect."""

    HOME, KEY_VARIABLE, PATH = "https://api.anthropic.com", "ANTHROPIC_API_KEY", "messages"

    def _body(self, prompt: str, max_tokens: int) -> dict[str, Any]:
        messages = [{"role": "user", "content": prompt}]
        return {"model": self._model, "messages": messages, "max_tokens": max_tokens, "stream": self._stream}

    def _headers(self, key: str) -> dict[str, str]:
        return {"anthropic-version": "2023-06-01"} | ({"x-api-key": key} if key else {})

    def _take(self, answer: Answer, event: Any) -> None:
        answer.add(at(event, "content"))
        answer.add(at(event, "delta", "text"))
        reason = at(event, "stop_reason") or at(event, "delta", "stop_reason")
        answer.end(reason, "max_tokens", "model_context_window_exceeded")
        usage = at(event, "usage") or at(event, "message", "usage")
        answer.count(at(usage, "input_tokens"), at(usage, "output_tokens"))
