"""A web service in which each request is answered for the person who is signed in. FastAPI is built on the same parts:
docs/guides/fastapi.md has the same service with it.

    python examples/web_service.py
"""

from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from tulving import InvalidInput, open_memory


@asynccontextmanager
async def lifespan(app: Starlette):
    async with open_memory("service.db", embedder="hashing") as memory:  # once, for all requests
        app.state.memory = memory
        yield


def theirs(request: Request):
    """The memory of the person who calls. A real service takes the name from a session, never from the body."""
    return request.app.state.memory.bind(user_id=request.headers["x-user"])


async def remember(request: Request) -> JSONResponse:
    stored = await theirs(request).store_note((await request.json())["text"])
    return JSONResponse({"id": str(stored.id), "outcome": stored.outcome})


async def recall(request: Request) -> JSONResponse:
    found = await theirs(request).recall(request.query_params["about"])
    return JSONResponse([{"text": hit.item.content, "score": round(hit.score, 3)} for hit in found])


async def refuse(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": str(error)}, status_code=422)


routes = [Route("/notes", remember, methods=["POST"]), Route("/notes", recall)]
app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={InvalidInput: refuse})

with TestClient(app) as client:  # instead of: uvicorn web_service:app
    client.post("/notes", json={"text": "Prefers trains to planes"}, headers={"x-user": "anna"})
    for person in ("anna", "bert"):
        print(person, client.get("/notes?about=travelling by train", headers={"x-user": person}).json())
    print(client.post("/notes", json={"text": ""}, headers={"x-user": "anna"}).json())
