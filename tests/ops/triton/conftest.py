from importlib.util import find_spec

collect_ignore = [] if find_spec("triton") else ["interpreted"]  # there is no Triton for some systems
