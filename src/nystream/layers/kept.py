"""The former name of `PinvCache`, which whole modules pickled by earlier versions refer to."""

from nystream.layers.pinv_cache import PinvCache as Kept

__all__ = ["Kept"]
