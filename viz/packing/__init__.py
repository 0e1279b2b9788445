"""What pages show, packed for the components: traces in, mounts out; no streamlit here."""
