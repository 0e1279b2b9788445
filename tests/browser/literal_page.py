"""A page of Streamlit that shows texts of strangers in every way in which it reads Markdown."""

import streamlit as st

from viz.i18n.format import literal, token_code

TEXTS = (
    "![a](https://example.com/a.png)",
    "&#33;[a](https://example.com/a.png) &excl;[b](https://example.com/b.png)",
    "https://example.com www.example.com someone@example.com http://example.com/?a=b&c=d",
    "<img src=https://example.com/c.png> <b>b</b>",
    "$x^2$ `code` **bold** _em_ ~~gone~~ a_b_c",
    ":red[r] :smile: :material/home: :streamlit: :red-background[x] 12:30:45",
    "a -> b <- c <-> d -- e >= f <= g ~= h",
    "# title",
    "1. one",
    "- one",
    "> said",
    "a\n\n- b\n\n```mermaid\ngraph TD\n```",
    "[^1] [b]: https://example.com",
    "||a|b||",
    "C:\\models\\x_y.pt",
)

if __name__ == "__main__":
    for number, text in enumerate(TEXTS):
        safe = literal(text)
        st.markdown(f"{safe}")
        st.caption(f"before {safe} behind", help=safe)
        st.button(safe, key=f"button {number}", help=safe)
        st.radio(safe, [safe], key=f"radio {number}", captions=[safe])
        st.segmented_control(safe, [text], format_func=literal, key=f"choice {number}")
        st.error(safe)
        st.markdown(token_code(text))
