"""Compares the results of several plans with those of a reference."""
import dataclasses
import math
import statistics

# A plan is outside its band only if random variation is an unlikely explanation.
STANDARD_ERRORS = 2


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The results of one plan beside those of the reference."""
    plan: str
    values: tuple       # of the seeds
    difference: float   # mean over the seeds, positive is better; 0 for the reference
    error: float        # standard error of the difference; 0 if there is one seed
    is_inside: bool

    @property
    def mean(self):
        return statistics.fmean(self.values)

    @property
    def spread(self):
        """Standard deviation over the seeds; None with one seed."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


def advantages(metric, reference, values):
    """How much better each value is than that of the reference with the same seed."""
    sign = 1 if metric.higher_is_better else -1
    return [sign * (value - base) * (100 / base if metric.is_relative else 1)
            for base, value in zip(reference, values)]


def pooled_error(differences):
    """The standard error of a mean difference. Few seeds say little about the spread of one plan,
    so the median variance of all plans is used: a plan that is unstable does not hide others."""
    variances = [statistics.variance(each) for each in differences if len(each) > 1]
    if not variances:
        return 0.0
    return math.sqrt(statistics.median(variances) / max(map(len, differences)))


def compare(experiment, values):
    """Compares the rows of an experiment. `values` has the values of all seeds by plan; the first
    row is the reference."""
    metric, (first, *others) = experiment.metric, experiment.rows
    reference = values[first.plan]
    mean = statistics.fmean(reference)
    reaches = mean >= experiment.level if metric.higher_is_better else mean <= experiment.level
    result = [Comparison(first.plan, tuple(reference), 0, 0, reaches)]
    differences = {row.plan: advantages(metric, reference, values[row.plan]) for row in others}
    error = pooled_error(list(differences.values()))
    for row in others:
        difference = statistics.fmean(differences[row.plan])
        is_inside = difference + STANDARD_ERRORS * error >= -row.band
        result.append(Comparison(row.plan, tuple(values[row.plan]), difference, error, is_inside))
    return result
