"""Known facts about the tracks of GTZAN: copies, and the fault-filtered split.

The faults were catalogued by B. L. Sturm ("The GTZAN dataset: its contents, its faults, their effects on evaluation,
and its future use", 2013); the split is that of C. Kereliuk, B. L. Sturm and J. Larsen ("Deep learning and music
adversaries", 2015), as in torchaudio. The groups of copies are those of the token file; most are not identical sample
for sample, but the same recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

COPIES = """
disco.00050 disco.00070; disco.00055 disco.00060 disco.00089; disco.00098 disco.00099; hiphop.00039 hiphop.00045;
hiphop.00076 hiphop.00078; jazz.00033 jazz.00051; jazz.00034 jazz.00053; jazz.00035 jazz.00055; jazz.00036 jazz.00058;
jazz.00037 jazz.00060; jazz.00038 jazz.00062; jazz.00039 jazz.00065; jazz.00040 jazz.00067; jazz.00042 jazz.00068;
jazz.00043 jazz.00069; jazz.00044 jazz.00070; jazz.00045 jazz.00071; jazz.00046 jazz.00072; metal.00004 metal.00013;
metal.00040 metal.00061; metal.00041 metal.00062; metal.00042 metal.00063; metal.00043 metal.00064;
metal.00044 metal.00065; metal.00045 metal.00066; metal.00034 metal.00094; pop.00015 pop.00022; pop.00030 pop.00031;
pop.00045 pop.00046; pop.00052 pop.00057; pop.00056 pop.00059; pop.00054 pop.00060; pop.00067 pop.00071;
pop.00047 pop.00080; pop.00087 pop.00090; reggae.00003 reggae.00054; reggae.00005 reggae.00056;
reggae.00008 reggae.00057; reggae.00010 reggae.00060; reggae.00073 reggae.00074;
reggae.00080 reggae.00081 reggae.00082; reggae.00075 reggae.00091 reggae.00092; metal.00058 rock.00016;
"""

# One character per track from 00000 to 00099: 0 training, 1 validation, 2 test, - unused
FILTERED = {
    "blues": "1111111111112222222222222222200000000000000000000011111111111222222222222000000000000000000000000022",
    "classical": "111111111112222222222222222222000022222222-000000200000000000000000011111111122200000000000000000000",
    "country": "11111111-1111111111000000001002222222222211221222122-22222222222200000000000000000000000000000000000",
    "disco": "12111011111111100000020000000000000000-00000001010--100-0020-0222221120-10012222222222222012222122-2",
    "hiphop": "2-0000000000000000000000002200200000000-200222-----2222000000022222222222222-00001111111111111111112",
    "jazz": "001111111110000000000000011111111--------0-----00000000000000000000000000222222222222222222222222222",
    "metal": "1100-01111112222111110220222222222-01122------000000000000-00000000210200222112001120202200000000000",
    "pop": "220000000010022-00000--0000000-000000-0000020-0--00--1-1--111112222--222222222220121111-222222222000",
    "reggae": "000-0-0--0-00-0000000000000000000-2222222-0000222000220000000110222220121-1-1112--2221-2222-11111111",
    "rock": "0000000000222222000000000002222222222212222222222111111110000000000000011111111111111122222000000000",
}


def copies_of(tracks: Sequence[str], contents: Sequence[Any]) -> NDArray[Any]:
    """[N] a group number per track, shared by copies: tracks with equal contents, and those known by name."""
    known = {name: number for number, group in enumerate(COPIES.split(";")) for name in group.split()}
    roots = list(range(len(tracks)))
    first: dict[Any, int] = {}
    for i, (name, content) in enumerate(zip(tracks, contents, strict=True)):
        for key in (("content", content), ("group", known.get(name, name))):
            other = roots[first.setdefault(key, i)]
            if other != roots[i]:
                mine = roots[i]
                roots = [other if root == mine else root for root in roots]
    return np.unique(roots, return_inverse=True)[1]


def filtered_of(tracks: Sequence[str]) -> NDArray[Any] | None:
    """[N] the fault-filtered split by name: 0 training, 1 validation, 2 test, -1 unused; None for other tracks."""
    signs = {f"{genre}.{i:05d}": sign for genre, row in FILTERED.items() for i, sign in enumerate(row)}
    if not any(name in signs for name in tracks):
        return None
    return np.array([-1 if (sign := signs.get(name, "-")) == "-" else int(sign) for name in tracks], dtype=np.int8)
