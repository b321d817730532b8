"""scikit-learn's own checks of the estimators, on their array interfaces."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from nystream import Classifier, Detector, Forecaster

SMALL = {"epochs": 1, "embed_dim": 8, "num_heads": 2, "layers": 1}
# The rows of an array are one stream, in order of time, so what is said of one depends on those before it.
ORDERED = {
    "check_methods_sample_order_invariance": "rows are in order of time",
    "check_methods_subset_invariance": "rows are in order of time",
}


def exceptions(estimator):
    return {} if isinstance(estimator, Classifier) else ORDERED


# A cast inside scikit-learn, of the NaN that its own check passes in.
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
@parametrize_with_checks(
    [kind(**SMALL) for kind in (Classifier, Detector, Forecaster)], expected_failed_checks=exceptions
)
def test_conventions(estimator, check):
    check(estimator)
