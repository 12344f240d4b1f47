"""Wrong command lines: the words, the exit code, and what the message says. All in `conftest.populate`'s world."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    words: str  # as a shell reads them
    code: int
    message: str  # a part of what is written to standard error
    lines: int = 1  # that the message takes
    printed: str = ""  # what is printed before all the same


VAE = "train vae --dataset synthetic-linear --network rolinek-linear --likelihood squared-error"
NO_METHOD = "which method? untwine train METHOD --dataset NAME, where METHOD is one of ada-gvae"
KEPT = "cannot go with --resume: a resumed run keeps its settings"
NO_RUN = "holds no run: there is no run.json in it"
NO_FOLDER = "needs the folder of a run, before any options"

UNTWINE = [
    Row("", 2, "usage: untwine COMMAND ...", lines=0),
    Row("bogus", 2, "unknown command 'bogus'; known: bench, data, datasets, demo"),
    Row("trian vae", 2, "unknown command 'trian'; did you mean 'train'?"),
    Row("--bogus", 2, "unknown option '--bogus'; see: untwine --help"),
    Row("-x", 2, "unknown option '-x'"),
    Row("'\x1b[31mred'", 2, r"unknown command '\x1b[31mred'"),
    Row("--import", 2, "--import needs a module or a file, as in: --import my_parts.py"),
    Row("methods --import --json", 2, "--import needs a module or a file"),
    Row("methods --import nowhere.py", 2, "cannot import 'nowhere.py': it does not exist"),
    Row("methods --import pictures/", 2, "it is a folder: name a file in it"),
    Row("methods --import runs", 2, "'runs' is a folder without a module of its own (__init__.py)"),
    Row("methods --import no_such_module", 2, "there is no module 'no_such_module', neither installed nor in this"),
    Row("methods --import=notes.txt", 2, "it is not a Python file (.py)"),
    Row("methods --import broken.py", 2, "cannot import 'broken.py': SyntaxError"),
    Row("methods --import raises.py", 2, "cannot import 'raises.py': ValueError: no such luck (raises.py, line 1)"),
]

TRAIN_METHOD = [
    Row("train", 2, NO_METHOD),
    Row("train --dataset three-dots", 2, NO_METHOD),
    Row("train beta-vea --dataset three-dots", 2, "unknown method 'beta-vea'; did you mean 'beta-vae'?"),
    Row("train sentence --dataset three-dots", 2, "import the module that defines it: --import MODULE_OR_FILE", 2),
    Row("train vae", 2, "--dataset NAME is missing: cars3d, dsprites"),
    Row("train vae --dataset", 2, "--dataset needs a value: --dataset NAME; see: untwine train vae --help"),
    Row("train vae --dataset --steps 3", 2, "--dataset needs a value"),
    Row("train vae --dataset nope", 2, "unknown dataset 'nope'; known: cars3d", 2),
    Row("train vae --dataset three-dot", 2, "unknown dataset 'three-dot'; did you mean 'three-dots'?"),
    Row("train vae extra --dataset three-dots", 2, "'extra' belongs to no option; see: untwine train vae --help"),
    Row("train vae vae --dataset three-dots", 2, "'vae' belongs to no option"),
    Row("train vae --dataset three-dots --", 2, "'--' belongs to no option"),
    Row("train vae --dataset three-dots -x", 2, "'-x' belongs to no option"),
    Row(
        "train beta-vae --dataset three-dots --bta 3", 2, "unknown option '--bta'; did you mean '--beta'? See: untwine"
    ),
    Row(
        "train beta-vae --dataset three-dots --quux 3", 2, "unknown option '--quux'; see: untwine train beta-vae --help"
    ),
    Row(
        "train beta-vae --dataset three-dots --gamma 3", 2, "beta-vae has no --gamma; these methods have: annealed-vae"
    ),
    Row(
        "train vae --dataset three-dots --anneal 3", 2, "vae has no --anneal; these methods have: annealed-vae, beta-v"
    ),
    Row("train beta-vae --dataset three-dots --beta x", 2, "--beta: 'x' is not a number"),
    Row("train beta-vae --dataset three-dots --beta", 2, "--beta needs a value: --beta NUMBER[,NUMBER...]"),
    Row("train beta-vae --dataset three-dots --beta 1,,2", 2, "--beta: '' is not a number"),
    Row("train beta-vae --dataset three-dots --beta nan", 2, "beta of method 'beta_vae' must be finite, not nan"),
    Row("train beta-vae --dataset three-dots --beta inf", 2, "beta of method 'beta_vae' must be finite, not inf"),
    Row(
        "train beta-vae --dataset three-dots --beta 1,2,3 --seeds 0-1", 2, "method.beta has 3 values, but the number of"
    ),
    Row(
        "train jl1-vae --dataset three-dots --anneal -3", 2, "anneal of method 'jl1_vae' must be a whole number, 0 or m"
    ),
    Row(
        "train jl1-vae --dataset three-dots --columns 0", 2, "columns of method 'jl1_vae' must be a whole number, 1 or"
    ),
    Row(
        "train jl1-vae --dataset three-dots --estimator exat",
        2,
        "--estimator: unknown choice 'exat'; did you mean 'exa",
    ),
    Row("train vae --dataset three-dots --prior nope", 2, "unknown prior 'nope'; known: anisotropic-normal"),
    Row("train vae --dataset three-dots --prior 'sparse(gamma=2)'", 2, "gamma of prior 'sparse' must be from 0 to 1"),
    Row("train vae --dataset three-dots --prior 'sparse(gamma=2'", 2, "cannot read the prior 'sparse(gamma=2'"),
    Row("train vae --dataset three-dots --prior 'sparse(gama=.2)'", 2, "unknown argument of prior 'sparse': 'gama'"),
    Row(
        """train vae --dataset three-dots --prior "__import__('os')" """,
        2,
        "unknown prior 'import'; known: anisotropic",
    ),
    Row("train vae --dataset three-dots --prior 'x.y'", 2, "cannot read the prior 'x.y'"),
    Row("train vae --dataset three-dots --prior '(((('", 2, "cannot read the prior '(((('"),
    Row("train vae --dataset three-dots --prior ''", 2, "cannot read the prior ''"),
    Row("train vae --dataset three-dots --likelihood nope", 2, "unknown likelihood 'nope'; known: bernoulli"),
    Row("train vae --dataset three-dots --posterior nope", 2, "unknown posterior 'nope'; known: deterministic"),
]

TRAIN_RUN = [
    Row(f"{VAE} --steps 0", 2, "steps must be a whole number, 1 or more, not 0"),
    Row(f"{VAE} --steps -5", 2, "steps must be a whole number, 1 or more, not -5"),
    Row(f"{VAE} --steps=-5", 2, "steps must be a whole number, 1 or more, not -5"),
    Row(f"{VAE} --steps ten", 2, "--steps: 'ten' is not a whole number"),
    Row(f"{VAE} --steps 1e3", 2, "--steps: '1e3' is not a whole number"),
    Row(f"{VAE} --steps none", 2, "--steps: 'none' is not a whole number"),
    Row(f"{VAE} --steps 99999999999999999999", 2, "steps must be a whole number, 1,000,000,000,000 or less"),
    Row(f"{VAE} --latents 0", 2, "latents must be a whole number, 1 or more, not 0"),
    Row(f"{VAE} --latents -3", 2, "latents must be a whole number, 1 or more, not -3"),
    Row(f"{VAE} --latents 2.5", 2, "--latents: '2.5' is not a whole number"),
    Row(f"{VAE} --latents 100000000", 2, "latents must be a whole number, 100,000 or less, not 100000000"),
    Row(f"{VAE} --batch-size 0", 2, "batch_size must be a whole number, 1 or more, not 0"),
    Row(f"{VAE} --batch-size 10000000000", 2, "batch_size must be a whole number, 1,000,000,000 or less"),
    Row(
        f"{VAE} --batch-size 1000000000 --steps 1 --latents 100000",
        2,
        "GB are free; most of it for a batch of 1,000,000",
    ),
    Row(f"{VAE} --lr 0", 2, "lr must be positive, not 0"),
    Row(f"{VAE} --lr -1", 2, "lr must be positive, not -1"),
    Row(f"{VAE} --lr nan", 2, "lr must be finite, not nan"),
    Row(
        f"{VAE} --lr 1,2 --seeds 0", 2, "lr has 2 values, but the number of seeds is 1: give one value for each member"
    ),
    Row(f"{VAE} --seeds 5-1", 2, "--seeds: 5-1 is not a range of 1 to 10,000 seeds"),
    Row(f"{VAE} --seeds a", 2, "--seeds: seeds are written as 0-9 or 0,1,5, not 'a'"),
    Row(f"{VAE} --seeds -1", 2, "--seeds: seeds are written as 0-9 or 0,1,5, not '-1'"),
    Row(f"{VAE} --seeds ''", 2, "--seeds: seeds are written as 0-9 or 0,1,5, not ''"),
    Row(f"{VAE} --seeds 0,0", 2, "two members of this run are the same: a seed repeats"),
    Row(f"{VAE} --seeds 0-99999999", 2, "is not a range of 1 to 10,000 seeds"),
    Row(f"{VAE} --seeds 99999999999999999999999", 2, "--seeds: a seed is a whole number from 0, not 9999"),
    Row(f"{VAE} --data-seeds 0-3 --seeds 0-1", 2, "the number of data seeds is 4, but of seeds 2"),
    Row(f"{VAE} --sampling iidd", 2, "--sampling: unknown choice 'iidd'; did you mean 'iid'?"),
    Row(f"{VAE} --clip 0", 2, "clip must be positive, not 0"),
    Row(f"{VAE} --clip -1", 2, "clip must be positive, not -1"),
    Row(f"{VAE} --precision float16", 2, "--precision: unknown choice 'float16'; did you mean 'bfloat16'?"),
    Row(f"{VAE} --standardise maybe", 2, "--standardise: 'maybe' is neither true nor false"),
    Row(f"{VAE} --standardise true --steps 1", 2, "only images are standardised"),
    Row(f"{VAE} --holdout 2", 2, "holdout must be from 0 to 1, not 2"),
    Row(f"{VAE} --holdout -0.1", 2, "holdout must be from 0 to 1, not -0.1"),
    Row(
        f"{VAE} --holdout 0.9999999 --steps 1", 2, "holdout is 0.9999999: of 50,000 examples that leaves none to train"
    ),
    Row(f"{VAE} --watch nope", 2, "unknown term to watch 'nope'; known: adversarial_total_correlation"),
    Row(f"{VAE} --watch kll", 2, "unknown term to watch 'kll'; did you mean 'kl'?"),
    Row(f"{VAE} --log-every 0", 2, "log_every must be a whole number, 1 or more, not 0"),
    Row(f"{VAE} --device tpu", 2, "unknown device 'tpu'; use auto, cpu, cuda or mps"),
    Row(f"{VAE} --device cuda:99", 2, "is not available here; use auto or cpu"),
    Row(f"{VAE} --path quick", 2, "path is 'auto', 'fast' or 'plain', not 'quick'"),
    Row(f"{VAE} --path fast --device cpu", 2, "the fast path cannot be taken: it is for cuda, and the device is cpu"),
    Row(f"{VAE} --pack-size 0", 2, "--pack-size must be a whole number, 1 or more, not 0"),
    Row(f"{VAE} --checkpoint-seconds -1", 2, "--checkpoint-seconds must be 0 or more, not -1"),
    Row(f"{VAE} --checkpoint-seconds nan", 2, "--checkpoint-seconds must be finite, not nan"),
    Row(f"{VAE} --json=3", 2, "--json takes no value"),
    Row(f"{VAE} --dry-run yes", 2, "'yes' belongs to no option"),
    Row(f"{VAE} --optimiser sgd", 2, "unknown optimiser 'sgd'; did you mean 'amsgrad'?"),
    Row(f"{VAE} --optimiser.beta1 3 --steps 1", 2, "the beta1 of an optimiser must be from 0 to less than 1, not 3"),
    Row(f"{VAE} --optimiser.eps 0 --steps 1", 2, "the eps of an optimiser must be positive"),
    Row(f"{VAE} --optimiser.momentum 1", 2, "unknown option '--optimiser.momentum'"),
    Row(
        "train vae --dataset synthetic-linear --network.hidden 8", 2, "--network.hidden is an option of a network: name"
    ),
    Row(
        "train vae --dataset synthetic-linear --network nope", 2, "unknown network 'nope'; known: conv, locatello64", 2
    ),
    Row(
        "train vae --dataset synthetic-linear --network mlp --network.hidden 0 --steps 1",
        2,
        "item 1 of hidden of netwo",
    ),
    Row(
        "train vae --dataset synthetic-linear --network mlp --network.hidden x", 2, "--network.hidden: 'x' is not a who"
    ),
    Row("train vae --dataset synthetic-linear --network mlp --network.hiden 8", 2, "did you mean '--network.hidden'?"),
    Row(
        "train vae --dataset synthetic-linear --network mlp --network.activation no --steps 1",
        2,
        "unknown activation 'no",
    ),
    Row(
        "train vae --dataset synthetic-linear --network conv --steps 1",
        2,
        "network 'conv' takes images [channels, height",
    ),
    Row(
        "train vae --dataset three-dots --network rhodes16 --steps 1", 2, "network 'rhodes16' cannot take 64x64 images"
    ),
    Row(
        "train vae --dataset synthetic-linear --network mlp --network.hidden 1000000000 --batch-size 1 --steps 3",
        2,
        "most of it for the weights of the model: take fewer latents, smaller layers",
    ),
    Row(
        f"train vae --dataset synthetic-linear --network mlp --network.hidden {10**18} --steps 3",
        2,
        "network 'mlp' has too many weights to count: take fewer latents, smaller layers or smaller examples",
    ),
    Row(
        f"train vae --dataset xy-squares --network conv --network.channels {10**16} --steps 3",
        2,
        "network 'conv' has too many weights to count",
    ),
]

TRAIN_DATA = [
    Row("train vae --dataset three-dots --dataset.nope 3", 2, "unknown option '--dataset.nope'"),
    Row("train vae --dataset.size 3 --dataset three-dots --dataset.size", 2, "--dataset.size needs a value"),
    Row("train vae --dataset.size 3", 2, "--dataset.size is an option of a dataset: name it, with --dataset NAME"),
    Row(
        "train vae --dataset three-dots --dataset.size -3 --steps 1",
        2,
        "three_dots: size -3, dots 3 and examples 500000",
    ),
    Row(
        "train vae --dataset three-dots --dataset.dots 0 --steps 1", 2, "dots 0 and examples 500000 must be at least 1"
    ),
    Row("train vae --dataset three-dots --dataset.dots 10000000 --steps 1", 2, "10,000,000 dots are too many"),
    Row("train vae --dataset three-dots --dataset.size 1000000 --steps 1", 2, "TB of memory"),
    Row("train vae --dataset three-dots --dataset.positions 1000000000 --steps 1", 2, "take fewer positions"),
    Row("train vae --dataset xy-squares --dataset.size 1000000000000 --steps 1", 2, "would need 8.0 TB of memory"),
    Row("train vae --dataset pinwheel --dataset.arms 1000000000000 --steps 1", 2, "arms of 100 points would need"),
    Row(
        "train vae --dataset tiled --dataset.dataset xy-squares --dataset.rows 1000000000 --steps 1", 2, "PB of memory"
    ),
    Row(
        "train vae --dataset three-dots --dataset.seed 10000000000000000000 --steps 1",
        2,
        "seed of dataset 'three_dots' must be a whole number, less than 2**62, not 10000000000000000000",
    ),
    Row(f"train vae --dataset three-dots --dataset.size {10**40} --steps 1", 2, "less than 2**62, not 1000"),
    Row(
        "train vae --dataset three-dots --dataset.examples 10000000000000 --steps 1",
        2,
        "10,000,000,000,000 states of 6",
    ),
    Row(
        "train vae --dataset three-dots --dataset.radius 3 --steps 1", 2, "radius is 3.0; it is a fraction of the width"
    ),
    Row("train vae --dataset three-dots --dataset.style opencvv", 2, "did you mean 'opencv'?"),
    Row(
        "train vae --dataset synthetic-linear --dataset.samples 0 --steps 1", 2, "a synthetic set needs samples (got 0)"
    ),
    Row(
        "train vae --dataset synthetic-linear --dataset.samples 100000000000 --steps 1", 2, "random numbers would need"
    ),
    Row("train vae --dataset synthetic-linear --dataset.ratio 0 --steps 1", 2, "ratio is 0.0; it must be above 0"),
    Row("train vae --dataset pinwheel --dataset.points 100000000000 --steps 1", 2, "points would need 6.4 TB"),
    Row("train vae --dataset xy-squares --dataset.size 8 --steps 1", 2, "8 pixels are too few for 8 positions"),
    Row("train vae --dataset split --steps 1", 2, "--dataset.dataset TEXT is missing"),
    Row("train vae --dataset split --dataset.dataset nope --steps 1", 2, "unknown dataset 'nope'"),
    Row("train vae --dataset tiled --dataset.dataset synthetic-linear --steps 1", 2, "only images can be tiled"),
    Row("train vae --dataset mnist --steps 1", 1, "train-images-idx3-ubyte.gz is not here", lines=4),
    Row("train vae --dataset images --steps 1", 2, "--dataset.source PATH is missing: The folder or the file"),
    Row(
        "train vae --dataset images --dataset.source nowhere --steps 1",
        2,
        "nowhere; give a folder, a .npy or .npz file",
    ),
    Row("train vae --dataset images --dataset.source runs --steps 1", 2, "no pictures in"),
    Row("train vae --dataset images --dataset.source empty --steps 1", 2, "no pictures in"),
    Row("train vae --dataset images --dataset.source notes.txt --steps 1", 2, "as a .npy or .npz file of numbers"),
    Row(
        "train vae --dataset images --dataset.source pictures/00.png --steps 1",
        2,
        "is a single picture; give the folder",
    ),
    Row(
        "train vae --dataset images --dataset.source pictures --dataset.size 0 --steps 1",
        2,
        "size is 0; it must be at le",
    ),
    Row(
        "train vae --dataset images --dataset.source pictures --dataset.size 1000000 --steps 1",
        2,
        "choose a smaller size",
    ),
    Row(
        "train vae --dataset images --dataset.source pictures --dataset.channels 2 --steps 1",
        2,
        "must be 1 (grey) or 3",
    ),
    Row(
        "train vae --dataset images --dataset.source pictures --dataset.factors nowhere.csv --steps 1",
        2,
        "should be the ta",
    ),
    Row(
        "train vae --dataset images --dataset.source pictures --dataset.factors notes.txt --steps 1",
        2,
        "must be a .csv",
    ),
    Row(
        "train vae --dataset images --dataset.source pictures --dataset.kinds x=cyclic --steps 1",
        2,
        "of which there is no",
    ),
    Row("train ada-gvae --dataset images --dataset.source pictures.npy --steps 1", 2, "has no factors"),
]

TRAIN_OUT = [
    Row(f"{VAE} --steps 1 --out runs", 1, "runs holds no run but other files ('pictures'); choose another folder"),
    Row(f"{VAE} --steps 1 --out pictures", 1, "pictures holds no run but other files ('00.png')"),
    Row(f"{VAE} --steps 1 --out notes.txt", 1, "notes.txt cannot be a folder: a file is in its way"),
    Row(f"{VAE} --steps 1 --out notes.txt/run", 1, "cannot be a folder: a file is in its way"),
    Row(f"{VAE} --steps 3 --out runs/vectors --dataset.samples 200", 1, "holds another run: its steps is 2, not 3"),
    Row(
        f"{VAE} --steps 2 --out runs/vectors",
        1,
        "runs/vectors was trained on 200 examples of [3], but the dataset has 50,",
    ),
    Row(
        f"{VAE} --steps 2 --lr 1 --out runs/vectors --dataset.samples 200",
        1,
        "its lr is 0.0001, not 1.0; choose another",
    ),
    Row(f"{VAE} --tensorboard --steps 1 --out /dev/null/x", 1, "cannot be a folder: a file is in its way"),
    Row("train --resume", 2, "--resume needs a value"),
    Row("train --resume nowhere", 1, f"nowhere {NO_RUN}"),
    Row("train --resume runs", 1, f"runs {NO_RUN}"),
    Row("train --resume ''", 1, "a run is named by its folder, and this name is empty"),
    Row("train --resume runs/vectors/log.jsonl", 1, NO_RUN),
    Row("train --resume runs/vectors --steps 500", 2, f"--steps {KEPT}"),
    Row("train --resume runs/vectors --seeds 0-9", 2, "Further seeds: the command that began it, with --seeds"),
    Row("train --resume runs/vectors --dataset three-dots", 2, f"--dataset {KEPT}"),
    Row("train --resume runs/vectors --nope", 2, f"--nope {KEPT}"),
    Row("train vae --resume runs/vectors", 2, "'vae' cannot go with --resume: the run in that folder has its method"),
    Row("train --resume runs/vectors runs/stopped", 2, "'runs/stopped' belongs to no option"),
    Row(
        "train --resume runs/vectors --resume runs/stopped", 2, "--resume is given more than once: resume one run, then"
    ),
    Row("train --resume=runs/vectors --resume runs/vectors", 2, "--resume is given more than once"),
    Row("train --resume runs/stopped --device tpu", 1, "unknown device 'tpu'; use auto, cpu, cuda or mps"),
    Row("train --resume runs/stopped --pack-size x", 2, "--pack-size: 'x' is not a whole number"),
]

EVALUATE = [
    Row("evaluate", 2, f"evaluate {NO_FOLDER}: untwine evaluate RUN [RUN ...]"),
    Row("evaluate --metrics mig", 2, f"evaluate {NO_FOLDER}"),
    Row("evaluate --metrics mig runs/vectors", 2, f"evaluate {NO_FOLDER}"),
    Row("evaluate nowhere", 1, f"nowhere {NO_RUN}"),
    Row("evaluate runs", 1, f"runs {NO_RUN}"),
    Row("evaluate ''", 2, "a run is named by its folder, and this name is empty"),
    Row("evaluate runs/vectors/log.jsonl", 1, NO_RUN),
    Row(
        "evaluate runs/stopped",
        1,
        "no member of runs/stopped is finished; go on with: untwine train --resume runs/stopped",
    ),
    Row("evaluate runs/vectors --metrics nope", 2, "unknown metric 'nope'; known: beta-vae-score"),
    Row("evaluate runs/vectors --metrics mgi", 2, "unknown metric 'mgi'; did you mean 'mig'?"),
    Row("evaluate runs/vectors --metrics 'mig('", 2, "cannot read the metric 'mig('"),
    Row("evaluate runs/vectors --metrics 'mig(nope=1)'", 2, "unknown argument of metric 'mig': 'nope'; known: binning"),
    Row("evaluate runs/vectors --metrics 'mig(3)'", 2, "metric 'mig' takes 0 arguments by position, not 1"),
    Row("evaluate runs/vectors --metrics 'mig(points=1)'", 2, "points must be 2 or more, not 1"),
    Row("evaluate runs/vectors --metrics 'mig(points=few)'", 2, "points of metric 'mig' must be a whole number"),
    Row("evaluate runs/vectors --metrics local-hoyer", 2, "hoyer has no local form"),
    Row("""evaluate runs/vectors --metrics "mig(__import__('os').system('x'))" """, 2, "takes 0 arguments by position"),
    Row(
        "evaluate runs/vectors --metrics 'mig(bins=0)'", 1, "mig(bins=0): bins must be a whole number, 2 or more, not 0"
    ),
    Row("evaluate runs/vectors --metrics mig --points 5", 1, "5 samples are fewer than 20 bins"),
    Row("evaluate runs/vectors --metrics 'irs(bins=1000000000000000)'", 1, "bins would need 8.0 PB of memory"),
    Row(
        "evaluate runs/vectors --metrics 'factor-vae-score(groups=100000000000000)' --points 200",
        1,
        "100,000,000,000,000 groups of 64 rows would need 51.2 PB of memory",
    ),
    Row(f"evaluate runs/vectors --seed {10**19}", 2, "--seed must be a whole number, less than 2**62, not 1000"),
    Row("evaluate runs/vectors --points 0", 2, "points must be 2 or more, not 0"),
    Row("evaluate runs/vectors --points -1", 2, "points must be 2 or more, not -1"),
    Row("evaluate runs/vectors --points few", 2, "--points: 'few' is not a whole number"),
    Row("evaluate runs/vectors --rho 0", 2, "rho is a fraction of each factor's range, above 0 and at most 1, not 0"),
    Row(
        "evaluate runs/vectors --rho 0.1 2", 2, "rho is a fraction of each factor's range, above 0 and at most 1, not 2"
    ),
    Row("evaluate runs/vectors --rho nan", 2, "--rho must be finite, not nan"),
    Row("evaluate runs/vectors --rho wide", 2, "--rho: 'wide' is not a number"),
    Row("evaluate runs/vectors --windows 0", 2, "windows must be 1 or more, not 0"),
    Row("evaluate runs/vectors --windows 1000000000000", 2, "1,000,000,000,000 windows would need 1.0 PB of memory"),
    Row("evaluate runs/vectors --examples 0", 2, "examples must be 2 or more, not 0"),
    Row("evaluate runs/vectors --jacobians 1", 2, "jacobians must be 2 or more, not 1"),
    Row("evaluate runs/vectors --seed x", 2, "--seed: 'x' is not a whole number"),
    Row("evaluate runs/vectors --device tpu", 2, "unknown device 'tpu'"),
    Row("evaluate runs/vectors --nope", 2, "unknown option '--nope'; see: untwine evaluate --help"),
    Row("evaluate runs/vectors --metric mig", 2, "unknown option '--metric'; did you mean '--metrics'?"),
    Row("evaluate runs/vectors --compare", 2, "--compare needs two runs or more"),
    Row("evaluate runs/vectors runs/vectors --compare", 2, "--compare needs two runs or more"),
    Row("evaluate runs/vectors --compare runs/pictures", 2, "'runs/pictures' belongs to no option"),
    Row(
        "evaluate runs/vectors --table scores.docx", 2, "a table is a file that ends in .csv or .tex, not 'scores.docx'"
    ),
    Row(
        "evaluate runs/vectors --table notes.txt/scores.csv",
        2,
        "notes.txt is a file, not a folder: choose another place",
    ),
    Row("evaluate runs/pictures --metrics mig", 1, "has no factors, so a model's codes cannot be compared with them"),
    Row("evaluate nowhere elsewhere", 1, f"elsewhere {NO_RUN}", lines=2),
]

LOOK = [
    Row("show", 2, "show needs the folder of one run, before any options"),
    Row("show runs/vectors runs/pictures", 2, "show needs the folder of one run"),
    Row("show nowhere", 1, f"nowhere {NO_RUN}"),
    Row("show runs/vectors", 1, "are no images of one or three channels: there is nothing to show"),
    Row("show runs/vectors --what nope", 2, "unknown picture 'nope'; known: columns, curves, information"),
    Row("show runs/vectors --what curves --out a.txt", 2, "a picture is a file that ends in .png, .pdf, .svg, unlike"),
    Row(
        "show runs/vectors --what curves --out runs",
        2,
        "a picture is a file that ends in .png, .pdf, .svg, unlike 'runs'",
    ),
    Row("show runs/vectors --what curves --out notes.txt/a.png", 2, "notes.txt is a file, not a folder"),
    Row("show runs/vectors --what curves --members seed-9", 1, "unknown member 'seed-9'; did you mean 'seed-"),
    Row("show runs/vectors --what curves --member seed-0", 2, "unknown option '--member'; did you mean '--members'?"),
    Row("show runs/vectors --latents 0", 2, "latents must be a whole number, 1 or more, not 0"),
    Row("show runs/vectors --examples 1000", 2, "examples must be a whole number, from 1 to 100, not 1000"),
    Row("show runs/vectors --seed -1", 2, "seed must be a whole number, 0 or more, not -1"),
    Row("show runs/vectors --device tpu", 2, "unknown device 'tpu'"),
    Row("show runs/pictures --what information", 1, "has no factors that latents could know about"),
    Row("report", 2, f"report {NO_FOLDER}"),
    Row("report nowhere", 1, "nowhere is no folder: give the folder of a run"),
    Row("report empty", 1, "empty holds no run: there is no run.json in it or below it"),
    Row("report runs/vectors nowhere --out a.html", 1, "nowhere is no folder"),
    Row("report runs/vectors --out a.pdf", 2, "a report is a page: its file ends in .html, unlike 'a.pdf'"),
    Row("report runs/vectors --out runs", 2, "its file ends in .html, unlike 'runs'"),
    Row("report runs/vectors --out notes.txt/a.html", 2, "notes.txt is a file, not a folder: choose another place"),
    Row("report runs/vectors --device tpu", 2, "unknown device 'tpu'"),
    Row("report runs/vectors --bogus", 2, "unknown option '--bogus'; see: untwine report --help"),
    Row("explore", 2, f"explore {NO_FOLDER}"),
    Row("explore nowhere", 1, "nowhere is no folder"),
    Row("explore empty", 1, "empty holds no run"),
    Row("explore runs/vectors --port 99999999", 2, "a port is a number from 1 to 65535, not 99999999"),
    Row("explore runs/vectors --port 0", 2, "a port is a number from 1 to 65535, not 0"),
    Row("explore runs/vectors --port x", 2, "--port: 'x' is not a whole number"),
    Row("explore runs/vectors --device tpu", 2, "unknown device 'tpu'"),
    Row("explore runs/vectors --host 0.0.0.0", 2, "unknown option '--host'"),
    Row("explore runs/stopped", 1, "no member of runs/stopped is finished"),
]

REPRODUCE = [
    Row("reproduce nope", 2, "unknown figure or table 'nope'; known: mathieu2019, mathieu2019/fig1"),
    Row("reproduce rhodes2021/fig99", 2, "unknown figure or table 'rhodes2021/fig99'; did you mean 'rhodes2021/fig9'?"),
    Row(
        "reproduce fig4", 2, "a figure is named with its paper: mathieu2019/fig4 or michlo2023/fig4 or rhodes2021/fig4"
    ),
    Row("reproduce rhodes2021/fig4 fig99", 2, "unknown figure or table 'fig99'"),
    Row("reproduce rhodes2021/fig4 --scale huge", 2, "--scale: unknown choice 'huge'; known: paper, small, smoke"),
    Row("reproduce rhodes2021/fig4 --set eps", 2, "--set: a setting is NAME=VALUE, not 'eps'"),
    Row("reproduce rhodes2021/fig4 --scale smoke --set nope=3", 2, "nope"),
    Row("reproduce rhodes2021/fig4 --scale smoke --seeds x", 2, "seeds are written as 0-9 or 0,1,5, not 'x'"),
    Row(
        "reproduce rhodes2021/fig4 --scale smoke --engine cloud",
        2,
        "--engine: unknown choice 'cloud'; known: inline, processes, ray",
    ),
    Row("reproduce rhodes2021/fig4 --scale smoke --device tpu", 2, "unknown device 'tpu'"),
    Row("reproduce rhodes2021/fig4 --set steps=9 --set steps=8", 2, "steps is given more than once"),
    Row("reproduce michlo2023/fig8 michlo2023/fig2 --seeds 0-1", 2, "unknown argument of experiment 'michlo2023/fig8'"),
    Row("reproduce rhodes2021/fig4 --set steps=9 steps=8", 2, "steps is given more than once"),
    Row("reproduce rhodes2021/fig4 --seeds 0-1 --set seeds=0-2", 2, "seeds is given more than once"),
    Row("reproduce rhodes2021/fig4 --set =3", 2, "--set: a setting is NAME=VALUE, not '=3'"),
    Row("reproduce rhodes2021/fig4 --workers 2", 2, "2 workers is for processes or ray"),
    Row("reproduce michlo2023/fig8 --check empty", 2, "--check and --page take a folder each"),
    Row("reproduce --page empty --check empty", 2, "--check and --page take a folder each"),
    Row("reproduce --check nowhere", 1, "nowhere is no folder of results"),
    Row("reproduce --check empty", 1, "empty holds no results: there is no result.json below it"),
    Row("reproduce --page nowhere", 1, "nowhere is no folder of results"),
    Row("reproduce --page empty", 1, "empty holds no results"),
    Row("reproduce --qqqqqqqq", 2, "unknown option '--qqqqqqqq'; see: untwine reproduce --help"),
    Row("sweep", 2, "sweep needs one file, before any options: untwine sweep [status] FILE.toml"),
    Row("sweep status", 2, "sweep needs one file"),
    Row("sweep sweep.toml sweep.toml", 2, "sweep needs one file"),
    Row("sweep nowhere.toml", 2, "nowhere.toml cannot be read: No such file or directory"),
    Row("sweep status nowhere.toml", 2, "nowhere.toml cannot be read"),
    Row("sweep runs", 2, "runs cannot be read: Is a directory"),
    Row("sweep notes.txt", 2, "notes.txt is no TOML"),
    Row("sweep sweep.toml --qqqqqqqq", 2, "unknown option '--qqqqqqqq'; see: untwine sweep --help"),
    Row("sweep sweep.toml --workers x", 2, "--workers: 'x' is not a whole number"),
]

SHARE = [
    Row("export", 2, "export needs the folder of a run, before any options: untwine export RUN [OPTIONS]"),
    Row("export --onnx", 2, "export needs the folder of a run"),
    Row("export runs/vectors", 2, "say what to write: --onnx, --hub-folder DIR or --hub USER/NAME"),
    Row("export nowhere --hub-folder hub", 1, f"nowhere {NO_RUN}"),
    Row(
        "export runs/stopped --hub-folder hub", 1, "no member of runs/stopped is finished: there is nothing to publish"
    ),
    Row("export runs/vectors --hub-folder runs", 1, "runs exists already and is not an empty folder; choose another"),
    Row("export runs/vectors --hub-folder notes.txt/hub", 1, "notes.txt is a file, not a folder"),
    Row("export runs/vectors --hub a/b/c", 2, "a name on the hub is user/model, such as my-name/jl1-dots, not 'a/b/c'"),
    Row("export runs/vectors --hub 'a b'", 2, "a name on the hub is user/model"),
    Row("export runs/vectors --hub ../a", 2, "a name on the hub is user/model"),
    Row("export runs/vectors --hub-folder hub --members seed-0", 2, "--members belongs to --onnx, which was not given"),
    Row("export runs/vectors --hub-folder hub --out a", 2, "--out belongs to --onnx"),
    Row("export runs/vectors --hub-folder hub --public", 2, "--public belongs to --hub"),
    Row("export runs/vectors --onx", 2, "unknown option '--onx'; did you mean '--onnx'?"),
    Row("export runs/vectors --hub", 2, "--hub needs a value"),
]

DATA = [
    Row("data", 2, "data needs a command: untwine data list, untwine data get"),
    Row("data nope", 2, "unknown command of 'data': 'nope'; known: check, get, list, show"),
    Row("data list x", 2, "'x' belongs to no option; see: untwine data list --help"),
    Row("data get", 2, "which dataset? It comes first, and is one of cars3d", lines=2),
    Row("data get nope", 2, "unknown dataset 'nope'", lines=3),
    Row("data get dsprits", 2, "unknown dataset 'dsprits'; did you mean 'dsprites'?", lines=2),
    Row("data get mpi3d --dataset.variant x", 2, "x"),
    Row("data check nope", 2, "unknown dataset 'nope'", lines=2),
    Row("data check --bogus", 2, "unknown option '--bogus'"),
    Row("data show", 2, "which dataset? It comes first", lines=2),
    Row("data show nope", 2, "unknown dataset 'nope'", lines=3),
    Row("data show synthetic-linear", 2, "are vectors of 3 numbers: there is no image to show"),
    Row("data show xy-squares --out a.xyz", 2, "a picture is a file that ends in .png, .pdf, .svg, unlike 'a.xyz'"),
    Row("data show xy-squares --out notes.txt/a.png", 2, "notes.txt is a file, not a folder"),
    Row("data show xy-squares --steps 1", 2, "steps must be a whole number, 2 or more, not 1"),
    Row("data show xy-squares --steps x", 2, "--steps: 'x' is not a whole number"),
    Row("data show three-dots --dataset.size 1000000", 2, "TB of memory"),
    Row("data show xy-squares --count 3", 2, "unknown option '--count'"),
    Row("perceive", 2, "which dataset? It comes first", lines=2),
    Row("perceive nope", 2, "unknown dataset 'nope'", lines=3),
    Row("perceive xy-squares --likelihood nope", 2, "unknown likelihood 'nope'"),
    Row("perceive xy-squares --pairs 1", 2, "pairs must be a whole number"),
    Row("perceive xy-squares --traversals 0", 2, "traversals must be a whole number, 1 or more, not 0"),
    Row("perceive xy-squares --seed -1", 2, "seed must be a whole number, 0 or more, not -1"),
    Row("perceive xy-squares --dataset.spacing 0", 2, "spacing is 0"),
    Row("perceive xy-squares --points 3", 2, "unknown option '--points'"),
]

LISTS = [
    Row("methods nope", 2, "unknown method 'nope'; known: ada-gvae", lines=2),
    Row("methods bta-vae", 2, "unknown method 'bta-vae'; did you mean 'beta-vae'?"),
    Row("methods vae extra", 2, "'extra' belongs to no option; see: untwine methods --help"),
    Row("metrics nope", 2, "unknown metric 'nope'", lines=2),
    Row("metrics mgi", 2, "unknown metric 'mgi'; did you mean 'mig'?"),
    Row("metrics --bogus", 2, "unknown option '--bogus'; see: untwine metrics --help"),
    Row("networks nope", 2, "unknown network 'nope'", lines=2),
    Row("networks conf", 2, "unknown network 'conf'; did you mean 'conv'?"),
    Row("datasets nope", 2, "unknown dataset 'nope'", lines=2),
    Row("datasets mnst", 2, "unknown dataset 'mnst'; did you mean 'mnist'?"),
    Row("bench nope", 2, "unknown benchmark 'nope'; known: batching, floors"),
    Row("bench --bogus", 2, "unknown option '--bogus'; see: untwine bench train --help"),
    Row("bench metrics --bogus", 2, "unknown option '--bogus'; see: untwine bench metrics --help"),
    Row("bench floors --wanted nope", 1, "unknown metric 'nope'"),
    Row("bench floors --seeds x", 2, "--seeds: 'x' is not a whole number"),
    Row("doctor extra", 2, "'extra' belongs to no option; see: untwine doctor --help"),
    Row("doctor --bogus", 2, "unknown option '--bogus'"),
    Row("doctor --json=yes", 2, "--json takes no value"),
    Row("demo extra", 2, "'extra' belongs to no option; see: untwine demo --help"),
    Row("demo --steps 0", 2, "steps must be a whole number, 1 or more, not 0"),
    Row("demo --steps x", 2, "--steps: 'x' is not a whole number"),
    Row("demo --seeds x", 2, "seeds are written as 0-9 or 0,1,5, not 'x'"),
    Row("demo --windows 0", 2, "windows must be 1 or more, not 0"),
    Row("demo --points 1", 2, "points must be 2 or more, not 1"),
    Row("demo --device tpu", 2, "unknown device 'tpu'"),
    Row("demo --size 0", 2, "unknown option '--size'"),
    Row("demo --out runs/vectors", 2, "runs/vectors holds a run of its own: choose another folder for the demo"),
    Row("demo --out notes.txt", 2, "notes.txt is a file, not a folder"),
    Row("demo --out notes.txt/demo", 2, "notes.txt is a file, not a folder"),
]

ROWS = UNTWINE + TRAIN_METHOD + TRAIN_RUN + TRAIN_DATA + TRAIN_OUT + EVALUATE + LOOK + REPRODUCE + SHARE + DATA + LISTS
