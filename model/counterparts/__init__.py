"""Networks of ours as models of Hugging Face."""
