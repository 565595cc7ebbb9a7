"""/v1/docs: Swagger UI over the OpenAPI document of the server. `site.tab` fails at a request to elsewhere or a refusal of the policy."""

import json
import re

from playwright.sync_api import expect

FEW = (
    "/v1/evaluate",
    "/v1/evaluations/{evaluation_id}",
)  # an operation of each colour; the others have the same markup
STORED = "Object.values({...localStorage, ...sessionStorage}).join(' ') + document.cookie"


def used_schemas(part, document):
    """The schemas that a part of the document refers to, and those that they refer to: each takes its time to draw."""
    every, found, text = document["components"]["schemas"], {}, json.dumps(part)
    while names := set(re.findall(r"#/components/schemas/([^\"/]+)", text)) - found.keys():
        found |= {name: every[name] for name in names}
        text = json.dumps([every[name] for name in names])
    return found


def check_operations(page, document):
    operations = {one["operationId"] for path in document["paths"].values() for one in path.values()}
    expect(page.locator(".opblock")).to_have_count(len(operations))
    shown = page.locator(".opblock").evaluate_all("all => all.map((one) => one.id.split('-').at(-1))")
    assert set(shown) == operations


def test_the_documents_show_each_operation_and_try_one(browser, site):
    document = site.client.get("/v1/openapi.json").json()
    with site.tab(browser, scheme="dark", key="") as page:
        errors, asked = [], []
        page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
        page.on("request", lambda request: asked.append(request.url))
        if site.full:
            page.goto(f"{site.url}/v1/docs")
            check_operations(page, document)
        few = document | {"paths": {path: document["paths"][path] for path in FEW}}
        few["components"] = document["components"] | {"schemas": used_schemas(few["paths"], document)}
        page.route("**/v1/openapi.json", lambda route: route.fulfill(json=few))
        page.goto(f"{site.url}/v1/docs")
        check_operations(page, few)
        expect(page.locator("html")).to_have_class("dark-mode")
        page.get_by_role("button", name="Authorize").click()
        field = page.locator("#api_key_value")
        site.check_accessibility(page, ".dialog-ux")
        assert field.get_attribute("autocomplete") == "off"
        field.fill(site.key)
        field.press("Enter")
        page.get_by_role("button", name="Close").first.click()
        evaluate = page.locator("#operations-evaluations-runEvaluation")
        evaluate.locator(".opblock-summary-control").click()
        evaluate.get_by_role("button", name="Try it out").click()
        with page.expect_response("**/v1/evaluate?*") as sent:
            evaluate.get_by_role("button", name="Execute").click()
        assert sent.value.status == 200
        assert sent.value.request.headers["x-api-key"] == site.key
        answer = evaluate.locator(".live-responses-table")
        expect(answer.locator(".response-col_status").last).to_contain_text("200")
        expect(answer).to_contain_text('"evaluation_id"')

        expect(evaluate.locator(".curl-command")).to_contain_text("X-API-Key: YOUR_KEY")
        assert site.key not in page.content()
        if site.full:
            site.check_accessibility(page)
        assert site.key not in " ".join([page.url, *asked, page.evaluate(STORED)])
        assert errors == []
