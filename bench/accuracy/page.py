"""The page docs/accuracy.md."""
import textwrap

COLUMNS = 100

HEAD = """# Accuracy by plan

    make accuracy

trains everything below and writes this page; [bench/accuracy](../bench/accuracy/README.md) has the
method. All plans of a table train the same model with the same seeds, samples and settings; the
warm-up of sgd is three times as long with late gradients
([policies.md](policies.md#learning-rate-and-momentum)). *spread* is the standard deviation over the
seeds. *difference* is the mean advantage over the first row with the same seed, with its standard
error; positive is better. *band* is how far a plan may be behind. The command fails if a plan is
further behind than its band and two standard errors, or if the first row misses its level.

Without `--only` the command first runs the tests `JoinedBatch` of `torch_test`: N workers train as
one worker with the joined batch, to 1e-10 after 100 steps in float64, for every optimizer, in the
group and on servers. An experiment whose data or GPU is missing is not trained, and its section
stays as it is; each section names the commit and the machine of its figures.
"""


def table_of(experiment, comparisons):
    metric = experiment.metric
    unit = "%" if metric.is_relative else "points"
    lines = [f"| plan | {metric.name} | spread | difference, {unit} | band | |",
             "|---|---|---|---|---|---|"]
    for row, compared in zip(experiment.rows, comparisons):
        spread = "" if compared.spread is None else f"{compared.spread:.{metric.digits}f}"
        difference = f"{compared.difference:+.2f}"
        if compared.error > 0:
            difference += f" ± {compared.error:.2f}"
        band = f"{row.band:g}"
        if row is experiment.rows[0]:
            difference = ""
            band = f"{'from' if metric.higher_is_better else 'to'} {experiment.level:g}"
        remark = row.note if compared.is_inside else "**outside**"
        lines.append(f"| `{row.plan}` | {compared.mean:.{metric.digits}f} | {spread} | "
                     f"{difference} | {band} | {remark} |")
    return lines


def wrapped(text):
    return textwrap.wrap(text.strip(), COLUMNS, break_long_words=False, break_on_hyphens=False)


def title_line(experiment):
    return f"## {experiment.title}"


def section_of(experiment, body, facts):
    """The text of a section. `body` is a list of lines: a table, or the reason why there is none;
    `facts` are sentences about this run."""
    seeds = "1 seed" if experiment.seeds == 1 else f"{experiment.seeds} seeds"
    command = textwrap.wrap(experiment.command(), COLUMNS - 10, break_on_hyphens=False)
    lines = [title_line(experiment), "", "    " + " \\\n        ".join(command), ""]
    return "\n".join([*lines, *wrapped(f"{experiment.text} {seeds}. {facts}"), "", *body]) + "\n"


def sections_in(page):
    """The sections of a page by their first lines."""
    sections = ["## " + text for text in ("\n" + page).split("\n## ")[1:]]
    return {text.splitlines()[0]: text.rstrip("\n") + "\n" for text in sections}


def page_of(sections):
    return "\n".join([HEAD, *sections])
