import os
from importlib.util import find_spec

# Triton decides when it is imported whether it interprets kernels. Here it does; test_compiled.py starts a process in
# which it compiles them.
collect_ignore = [] if find_spec("triton") else ["interpreted"]  # there is no Triton for some systems
if os.environ["TRITON_INTERPRET"] == "1":
    collect_ignore.append("compiled")
