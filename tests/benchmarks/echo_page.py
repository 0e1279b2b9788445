"""The yardstick of the keystroke benchmark: a page that only echoes what is typed."""

import streamlit as st

st.set_page_config(layout="wide")
st.text(st.text_input("Source", "I was reading a book when she came", live="100ms"))
