"""Online action detection on THUMOS14, from either of two public sets of features.

videos = load("thumos14_i3d_pca256_i8.npz")
train, valid, test = videos.split(seed=0)
ns.train.fit(model, train, valid, task=ns.train.Detection())
"""

from nystream.lab.tasks.actions.load import load
from nystream.lab.tasks.actions.videos import AMBIGUOUS, BACKGROUND, CLASSES, Actions, Videos

__all__ = ["AMBIGUOUS", "BACKGROUND", "CLASSES", "Actions", "Videos", "load"]
