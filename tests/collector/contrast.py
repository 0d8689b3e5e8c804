"""Contrast of texts to their ground, as WCAG 2.2 (1.4.3) computes it from what a browser would paint."""

from playwright.sync_api import Page

_COLOURS = """() => {
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const [r, g, b, a = 1] = parse(getComputedStyle(at).backgroundColor);
      if (a > 0) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim();
    const element = walker.currentNode.parentElement;
    if (!text || !element.getClientRects().length || element.closest("title")) continue;
    const style = getComputedStyle(element);
    const ink = element.namespaceURI.endsWith("svg") ? style.fill : style.color;
    found.push([text, parse(ink).slice(0, 3), ground(element)]);
  }
  return found;
}"""
_LEAST = 4.5


def faint_texts(page: Page) -> list[str]:
    """Texts that stand out too little, each with its contrast."""
    texts = page.evaluate(_COLOURS)
    assert texts, "a page without a text"
    told = {text: contrast(ink, ground) for text, ink, ground in texts}
    return [f"{text}: {found:.2f}" for text, found in told.items() if found < _LEAST]


def contrast(one: list[float], other: list[float]) -> float:
    """1 for the same colours to 21 for black and white; colours are red, green and blue of 255."""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: list[float]) -> float:
    parts = (part / 255 for part in colour)
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
