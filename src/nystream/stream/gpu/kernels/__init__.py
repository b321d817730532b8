"""Triton kernels. In their docstrings, P is the number of pairs of a stream and a head that a program takes.

`slots` [rows] are places in the pool, `places` [rows] where in its ring a stream writes its next token, or −1 for rows
that are skipped. Sizes in capital letters are constants of the compiled kernel; those that end in `_` are padded.
"""
