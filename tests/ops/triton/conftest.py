import os

# Triton decides when it is imported whether it interprets kernels, so these tests have a process of their own, which
# test_interpreted.py starts.
collect_ignore = [] if os.environ.get("TRITON_INTERPRET") == "1" else ["interpreted"]
