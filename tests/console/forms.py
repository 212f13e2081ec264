"""The forms of the console's pages, and sending them past what a page offers."""

import httpx2
from console_parts import Visitor
from html_tree import Element

HARMLESS = ("/console/theme", "/console/logout", "/console/login")


def forms_of(visitor: Visitor) -> list[tuple[str, dict[str, str]]]:
    """Where the forms and the buttons of a page post to, and what they send besides their token."""
    found = []
    for form in visitor.tree.all("form"):
        if form["method"].lower() != "post" or form["action"].startswith(HARMLESS):
            continue
        sent = {each["name"]: _filled(each) for each in form.all("input", "select", "textarea") if each["name"]}
        sent |= {"_sure": "1"}
        actions = [each["formaction"] for each in form.all("button") if each["formaction"]]
        found += [(action, sent) for action in dict.fromkeys((form["action"], *actions)) if action]
    return found


async def send(visitor: Visitor, action: str, fields: dict[str, str]) -> httpx2.Response:
    """What is answered to a form with the token of the page that the visitor is at, and stays at."""
    token = next(each["content"] for each in visitor.tree.all("meta") if each["name"] == "form-token")
    path, told = action.partition("#")[0], {**fields, "_token": token}
    return await visitor.web.request("POST", path, data=told, follow_redirects=False)


def _filled(field: Element) -> str:
    """A value that is not refused for being empty."""
    if field.tag == "select":
        return next((option["value"] for option in field.all("option") if option["value"]), "")
    return field["value"] or field.raw_text.strip() or "something"
