"""
The documentation as a site: `make site` writes it to build/site/html. Open index.html there; it needs no server and no network.

The Markdown of the repository stays as it is. A copy of it, in the same folders, gets what Zensical needs: the name of a file
above its block, a blank line before a list, folders named and not linked. Then llms.txt and llms-full.txt are written.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ROOM = ROOT / "build" / "site"  # Zensical wants everything below its configuration
SOURCES, SITE = ROOM / "pages", ROOM / "html"
CONFIGURATION = ROOT / "site" / "zensical.toml"
FENCE = re.compile(r"^(`{3,})([^\n`]*)\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
COMMANDS = re.compile(r"(\$ (.*\\\n)*.*\n)+")  # a command goes on behind a backslash
ITEM = re.compile(r"\s*([-*]|\d+\.) ")
ABOUT = "Is it good enough to ship? One evaluation engine behind FEP and OpenWOP agent evaluation."


def entries(
    nav: list[dict[str, Any]], titles: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """The pages of the navigation: the headings above each, its title and its file."""
    for entry in nav:
        for title, value in entry.items():
            if isinstance(value, str):
                yield titles, title, value
            else:
                yield from entries(value, (*titles, title))


def navigation() -> list[tuple[tuple[str, ...], str, str]]:
    return list(entries(tomllib.loads(CONFIGURATION.read_text("utf-8"))["project"]["nav"]))


def pages() -> list[Path]:
    """Those of the navigation, and each decision."""
    listed = [ROOT / name for _, _, name in navigation()]
    return [*listed, *(one for one in sorted((ROOT / "docs" / "decisions").glob("0*.md")))]


def stage() -> None:
    """Copy the pages, and the files and pictures that they link."""
    for page in pages():
        target = SOURCES / page.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(converted(page), "utf-8")
    shutil.copytree(ROOT / "site" / "assets", SOURCES / "assets")


def converted(page: Path) -> str:
    parts, at = list[str](), 0
    text = page.read_text("utf-8")
    for fence in FENCE.finditer(text):
        parts += [prose(text[at : fence.start()], page), block(fence)]
        at = fence.end()
    return "".join([*parts, prose(text[at:], page)])


def block(fence: re.Match[str]) -> str:
    """
    `csv eval.csv` is a block with a title; `sh exit=3` and `text drawing` are their first word.

    A console that shows commands alone has no prompts: whoever copies it runs it.
    """
    marks, words, body = fence[1], fence[2].split(), fence[3]
    language, name = (*words, "", "")[:2]
    if language == "console" and COMMANDS.fullmatch(body):
        language, body = "sh", re.sub(r"^\$ ", "", body, flags=re.MULTILINE)
    title = f' title="{name}"' if "." in name else ""
    return f"{marks}{language}{title}\n{body}{marks}"


def prose(text: str, page: Path) -> str:
    def linked(found: re.Match[str]) -> str:
        mark, label, target, anchor = found[1], found[2], found[3], found[4] or ""
        file = (page.parent / target).resolve()
        if file.is_dir():
            return label
        if file.suffix != ".md":
            copy = SOURCES / file.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
        return f"{mark}[{label}]({target}{anchor})"

    lines = list[str]()
    for line in LINK.sub(linked, text).split("\n"):
        before = lines[-1] if lines else ""
        if (
            ITEM.match(line)
            and before.strip()
            and not ITEM.match(before)
            and not before.startswith((" ", "#"))
        ):
            lines.append("")  # a list begins a paragraph of its own in Python-Markdown
        lines.append(re.sub(r"^( {2,3})(?=\S)", "    ", line) if _in_item(lines, line) else line)
    return "\n".join(lines)


def _in_item(lines: list[str], line: str) -> bool:
    """Whether a line with two or three spaces goes on with an item: Python-Markdown wants four."""
    return bool(re.match(r" {2,3}\S", line)) and any(ITEM.match(one) for one in lines[-40:])


def keep_local() -> None:
    """A page on disk searches in a frame, by a script of another host. It is here instead."""
    for page in SITE.rglob("*.html"):
        text = page.read_text("utf-8")
        above = "../" * (len(page.relative_to(SITE).parts) - 1)
        page.write_text(
            text.replace("https://unpkg.com/iframe-worker/shim", f"{above}assets/iframe-worker.js"), "utf-8"
        )


def write_llms() -> None:
    """llms.txt lists the pages for a model, with the first paragraph of each; llms-full.txt has the guides and the reference."""
    lines, full = ["# assay", "", f"> {ABOUT}"], list[str]()
    heading: tuple[str, ...] | None = None
    for titles, title, name in navigation():
        if titles != heading:
            heading = titles
            lines += ["", f"## {' · '.join(titles) or 'Overview'}", ""]
        lines.append(f"- [{title}]({name}): {summary(ROOT / name)}")
        if not name.startswith("docs/decisions"):
            full.append(f"<!-- {name} -->\n\n{(ROOT / name).read_text('utf-8').strip()}\n")
        shutil.copy(ROOT / name, _parent(SITE / name))
    (SITE / "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")
    (SITE / "llms-full.txt").write_text("\n".join(full), "utf-8")


def _parent(file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def summary(page: Path) -> str:
    """The first sentence of a page."""
    text = FENCE.sub("", page.read_text("utf-8"))
    first = next(
        part
        for part in re.split(r"\n\s*\n", text)
        if part.strip() and not part.lstrip().startswith(("#", "|", "!"))
    )
    plain = " ".join(LINK.sub(lambda found: found[2], first).split())
    return re.split(r"(?<=[.:])\s", plain)[0].rstrip(":")


def main() -> None:
    shutil.rmtree(ROOM, ignore_errors=True)
    stage()
    shutil.copy(CONFIGURATION, ROOM)
    zensical = [
        sys.executable,
        "-m",
        "zensical",
        "build",
        "--clean",
        "--strict",
        "-f",
        str(ROOM / CONFIGURATION.name),
    ]
    if code := subprocess.run(zensical, cwd=ROOT, check=False).returncode:  # noqa: S603
        sys.exit(code)
    keep_local()
    write_llms()


if __name__ == "__main__":
    main()
