"""Wrong calls in Python: the expression, the class of the exception, and what it says. All in `wrong_world`'s world.

The names that expressions use are those of `names` in `test_python_calls.py`: `E` is an ensemble of vectors of three
numbers with two members and ten latents, `P` one of pictures, `run` makes a run, `pen` an objective with a penalty of a
user's, and `net` a network of a user's.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    call: str
    message: str  # a part of what the exception says
    error: str = "UntwineError"  # the class of the exception, or of one that it derives from


FIT = [
    Row("uw.fit('beta_vae')", "fit trains a Run, such as uw.Run('beta_vae', 'three_dots'), not 'beta_vae'"),
    Row("uw.fit(None)", "fit trains a Run"),
    Row("uw.fit({'method': 'vae'})", "fit trains a Run"),
    Row("uw.fit()", "fit needs run; its arguments are (run, out=None", "WrongCall"),
    Row("uw.fit(run(), out=3)", "out of fit must be a text, a Path or None, not 3", "WrongCall"),
    Row("uw.fit(run(), 'notes.txt/run')", "cannot be a folder: a file is in its way"),
    Row("uw.fit(run(), 'pictures')", "pictures holds no run but other files"),
    Row("uw.fit(run(), device='tpu')", "unknown device 'tpu'; use auto, cpu, cuda or mps"),
    Row("uw.fit(run(), device=3)", "device '3'"),
    Row("uw.fit(run(), divice='cpu')", "unknown argument of fit: 'divice'; did you mean 'device'?", "WrongCall"),
    Row(
        "uw.fit(run(), pack_size='x')",
        "pack_size of fit must be a whole number, 1 or more, or None, not 'x'",
        "WrongCall",
    ),
    Row("uw.fit(run(), pack_size=0)", "pack_size of fit must be a whole number, 1 or more, not 0", "WrongCall"),
    Row("uw.fit(run(), pack_size=1.5)", "pack_size of fit must be a whole number", "WrongCall"),
    Row("uw.fit(run(), checkpoint_seconds='x')", "checkpoint_seconds of fit must be a number, not 'x'", "WrongCall"),
    Row("uw.fit(run(), checkpoint_seconds=-1)", "checkpoint_seconds of fit must be 0 or more, not -1", "WrongCall"),
    Row("uw.fit(run(), checkpoint_seconds=math.nan)", "checkpoint_seconds of fit must be finite", "WrongCall"),
    Row("uw.fit(run(), batching='nope')", "batching of fit must be 'auto', 'vmap' or 'loop', not 'nope'", "WrongCall"),
    Row("uw.fit(run(), resident='x')", "resident of fit must be true or false or None, not 'x'", "WrongCall"),
    Row("uw.fit(run(), progress='x')", "progress of fit must be true or false, a Reporter or None", "WrongCall"),
    Row("uw.fit(run(), tensorboard=True)", "TensorBoard's files need a folder: give out="),
    Row("uw.fit(run(), path='quick')", "path is 'auto', 'fast' or 'plain', not 'quick'"),
    Row("uw.fit(run(batch_size=10**9, latents=10**5))", "most of it for a batch of 1,000,000,000 examples", "Refused"),
    Row("uw.resume(None)", "a run is named by its folder, as a text or a Path, not None"),
    Row("uw.resume('nowhere')", "nowhere holds no run"),
    Row("uw.resume(E)", "a run is named by its folder, as a text or a Path, not Ensemble("),
    Row("uw.resume('runs/vectors', steps=3)", "unknown argument of fit: 'steps'", "WrongCall"),
]

RUN = [
    Row("run(watch=[3])", "item 1 of watch must be a text, not 3"),
    Row("run(watch=3)", "watch must be a list of texts, not 3"),
    Row("run(watch=['nope'])", "unknown term to watch 'nope'"),
    Row("run(method=3)", "a method is a name, an Objective or JSON, not 3"),
    Row("run(method='bta_vae')", "unknown method 'bta_vae'; did you mean 'beta_vae'?"),
    Row("run(method=uw.methods.vae)", "a method is a name, an Objective or JSON, not <function vae"),
    Row("run(method={'nme': 'vae'})", "a method is {'name': ..., ...} or {'objective': ...}, not ['nme']"),
    Row("run(method={'name': 3})", "a method is known by its name, a text, not 3"),
    Row("run(method={'name': 'beta_vae', 'beta': {}})", "beta of method 'beta_vae' must be a number, not {}"),
    Row("run(method={'objective': 3})", "the method of this run is not an objective"),
    Row("run(dataset=None)", "a dataset is a name or {'name': ..., ...}, not None"),
    Row("run(dataset={'name': 3})", "a dataset is a name or {'name': ..., ...}, not {'name': 3}"),
    Row("run(dataset='dsprits')", "unknown dataset 'dsprits'; did you mean 'dsprites'?"),
    Row(
        "run(dataset={'name': 'mnist', 'splt': 1})",
        "unknown argument of dataset 'mnist': 'splt'; did you mean 'split'?",
    ),
    Row("run(dataset=np.zeros((3, 8, 8)))", "an array becomes a dataset by uw.datasets.images(array)"),
    Row("run(dataset=uw.datasets.three_dots)", "call it, as in three_dots()"),
    Row("run(network=3)", "a network is a name or {'name': ..., ...}, not 3"),
    Row("run(network=nn.Linear(3, 3))", "a network of your own is a function that @uw.network decorates"),
    Row("run(network=uw.networks.mlp)", "call it, as in mlp()"),
    Row(
        "run(network={'name': 'mlp', 'hidden': 'x'})",
        "hidden of network 'mlp' must be a list of whole numbers, not 'x'",
    ),
    Row("run(latents='3')", "latents must be a whole number, 1 or more, not '3'"),
    Row("run(latents=True)", "latents must be a whole number, 1 or more, not True"),
    Row("run(latents=10**9)", "latents must be a whole number, 100,000 or less"),
    Row("run(seeds=[])", "seeds are a list such as [0, 1, 2] or '0-9', not []"),
    Row("run(seeds=[-1])", "a seed is a whole number from 0, not -1"),
    Row("run(seeds={0, 1})", "seeds are a list such as [0, 1, 2] or '0-9', not {0, 1}"),
    Row("run(data_seeds=[1, 2, 3])", "the number of data seeds is 3, but of seeds 2"),
    Row("run(steps=1e3)", "steps must be a whole number, 1 or more, not 1000.0"),
    Row("run(steps=10**20)", "steps must be a whole number, 1,000,000,000,000 or less"),
    Row("run(batch_size=10**12)", "batch_size must be a whole number, 1,000,000,000 or less"),
    Row("run(lr='x')", "lr must be a number, not 'x'"),
    Row("run(lr=lambda step: 3)", "lr must be a number, not <function"),
    Row("run(lr=[1.0, 2.0, 3.0])", "lr has 3 values, but the number of seeds is 2"),
    Row("run(optimiser='sgd')", "unknown optimiser 'sgd'; did you mean 'amsgrad'?"),
    Row("run(optimiser=torch.optim.Adam)", "an optimiser is a name or {'name': ..., ...}, not <class"),
    Row(
        "run(optimiser={'name': 'adam', 'beta1': 3})", "the beta1 of an optimiser must be from 0 to less than 1, not 3"
    ),
    Row("run(optimiser={'name': 'adam', 'lr': 3})", "unknown argument of optimiser 'adam': 'lr'"),
    Row(
        "run(precision='float16')", "precision must be 'float32' or 'bfloat16', not 'float16'; did you mean 'bfloat16'?"
    ),
    Row("run(standardise='yes')", "standardise must be true or false, not 'yes'"),
    Row("run(holdout=3)", "holdout must be from 0 to 1, not 3"),
    Row("run(latnts=3)", "unknown argument of Run: 'latnts'; did you mean 'latents'?", "WrongCall"),
    Row("run().replace(nope=3)", "unknown field of a run: 'nope'; known: batch_size"),
    Row("uw.Run('vae')", "Run needs dataset", "WrongCall"),
    Row("uw.Run.from_json(3)", "a run as JSON is a mapping with a method and a dataset, not 3"),
    Row("uw.Run.from_json({})", "a run needs a method"),
    Row("uw.Run.from_json({'method': 'vae', 'dataset': 'mnist', 'nope': 3})", "unknown field of a run: 'nope'"),
]

LOAD = [
    Row("uw.load(None)", "a run is named by its folder, as a text or a Path, not None"),
    Row("uw.load(3)", "a run is named by its folder, as a text or a Path, not 3"),
    Row("uw.load('')", "a run is named by its folder, and this name is empty"),
    Row("uw.load(E)", "a run is named by its folder, as a text or a Path, not Ensemble("),
    Row("uw.load('nowhere')", "nowhere holds no run: there is no run.json in it"),
    Row("uw.load('runs/vectors', device='tpu')", "unknown device 'tpu'"),
    Row("uw.load('runs/stopped')", "no member of runs/stopped is finished"),
    Row("E.member(5)", "a member is a whole number from 0 to 1, or a name, not 5"),
    Row("E.member('seed-9')", "unknown member 'seed-9'; did you mean 'seed-"),
    Row("E.member(None)", "i of member must be a whole number or a text, not None", "WrongCall"),
    Row("E.member(True)", "i of member must be a whole number or a text, not True", "WrongCall"),
    Row("E.encode('hello')", "examples must be an array of numbers, not 'hello'"),
    Row("E.encode(None)", "examples must be an array of numbers, not None"),
    Row("E.encode({})", "examples must be an array of numbers, not {}"),
    Row("E.encode([['a', 'b', 'c']])", "examples must be an array of numbers, not [['a', 'b', 'c']]"),
    Row("E.encode([[1, 2, 3], [1, 2]])", "examples must be an array of numbers: rows have different lengths"),
    Row("E.encode(3)", "examples must have shape [n, 3], not []"),
    Row("E.encode(np.zeros((2, 4)))", "examples must have shape [n, 3], not [2, 4]"),
    Row("E.encode(np.zeros((0, 3)))", "examples must have shape [n, 3], not [0, 3]"),
    Row("E.encode(np.full((2, 3), np.nan))", "they must be finite"),
    Row("E.encode(np.zeros((2, 3), complex))", "examples are complex128; they must be real numbers"),
    Row("E.encode(np.zeros((2, 3), np.uint8))", "examples are uint8, but the model was trained on vectors of floats"),
    Row("E.encode(torch.zeros(2, 3).to_sparse())", "this tensor of examples is sparse: give x.to_dense()"),
    Row("E.encode(torch.zeros(2, 3, device='meta'))", "has no numbers: it is on the device 'meta'"),
    Row("E.encode(np.zeros((2, 3)), batch=0)", "batch of encode must be a whole number, 1 or more, not 0", "WrongCall"),
    Row("E.encode(np.zeros((2, 3)), bach=2)", "unknown argument of encode: 'bach'; did you mean 'batch'?", "WrongCall"),
    Row("E.encode()", "encode needs x", "WrongCall"),
    Row("E.variances('x')", "examples must be an array of numbers, not 'x'"),
    Row("E.posteriors(np.zeros(3))", "examples must have shape [n, 3], not [3]"),
    Row("P.encode(np.full((1, 1, 8, 8), 300))", "if these are from 0 to 255, use x.astype(np.uint8)"),
    Row("P.encode(np.full((1, 1, 8, 8), 200.0))", "divide them by 255, or give them as uint8"),
    Row("P.encode(np.full((1, 1, 8, 8), -0.5))", "the model was trained on images in [0, 1]: map them to [0, 1]"),
    Row("P.encode(np.zeros((1, 8, 8)))", "examples must have shape [n, 1, 8, 8], not [1, 8, 8]"),
    Row("E.decode('hello')", "codes must be an array of numbers, not 'hello'"),
    Row("E.decode(np.zeros((2, 7)))", "codes must have shape [n, 10] or [2, n, 10], not [2, 7]"),
    Row("E.decode(torch.zeros(2, 10, device='meta'))", "this tensor of codes has no numbers"),
    Row("E.decode(np.zeros((2, 10), complex))", "codes must be real numbers"),
    Row("E.decode(np.full((2, 10), np.inf))", "codes hold a NaN or an infinity, which no image belongs to"),
    Row("uw.load('runs/vectors', device=10**30)", "unknown device '1000000000000000000000000000000'"),
    Row("E.encode(np.zeros((2, 3)), batch=10**30)", "batch of encode must be a whole number, less than", "WrongCall"),
    Row("E.encode(np.zeros((2, 3)), batch=np.zeros((2, 2)))", "not array([[0., 0.], [0., 0.]])", "WrongCall"),
    Row("E.jacobian([[1, 2]])", "codes must have shape [n, 10]"),
    Row("E.reconstruct('x')", "examples must be an array of numbers, not 'x'"),
    Row("E.sample(0)", "n of sample must be a whole number, 1 or more, not 0", "WrongCall"),
    Row("E.sample('x')", "n of sample must be a whole number, 1 or more, not 'x'", "WrongCall"),
    Row("E.sample(10**12)", "random numbers would need"),
    Row("E.sample(2, seed=-1)", "seed of sample must be a whole number, 0 or more, not -1", "WrongCall"),
    Row("E.interpolate(np.zeros((2, 3)), np.zeros((3, 3)))", "there are 2 examples to begin with, but 3 to end with"),
    Row("E.interpolate(np.zeros((2, 3)), np.zeros((2, 3)), steps=1)", "a line has 2 or more points, not 1"),
    Row(
        "E.interpolate(np.zeros((2, 3)), np.zeros((2, 3)), steps='x')",
        "steps of interpolate must be a whole",
        "WrongCall",
    ),
]

EVALUATE = [
    Row("uw.evaluate(None)", "a run is named by its folder, as a text or a Path, not None"),
    Row("uw.evaluate(run())", "this run is not trained: evaluate the ensemble that fit(run) returns"),
    Row(
        "uw.evaluate(E, 3)",
        "a metric is a name such as 'local-mig', or a function that @untwine.metric decorates, not 3",
    ),
    Row("uw.evaluate(E, [3])", "a metric is a name such as 'local-mig'"),
    Row("uw.evaluate(E, 'mgi')", "unknown metric 'mgi'; did you mean 'mig'?"),
    Row("uw.evaluate(E, lambda codes: 3)", "a metric is a name such as 'local-mig'"),
    Row(
        "uw.evaluate(E, metrcs=['mig'])", "unknown argument of evaluate: 'metrcs'; did you mean 'metrics'?", "WrongCall"
    ),
    Row(
        "uw.evaluate(E, 'mig', rho='x')", "rho of evaluate must be a number or a list of numbers, not 'x'", "WrongCall"
    ),
    Row("uw.evaluate(E, 'mig', rho=2.0)", "rho is a fraction of each factor's range"),
    Row("uw.evaluate(E, 'mig', windows='x')", "windows of evaluate must be a whole number, not 'x'", "WrongCall"),
    Row("uw.evaluate(E, 'mig', windows=2.5)", "windows of evaluate must be a whole number, not 2.5", "WrongCall"),
    Row("uw.evaluate(E, 'mig', points='x')", "points of evaluate must be a whole number or None, not 'x'", "WrongCall"),
    Row("uw.evaluate(E, 'mig', points=1)", "points must be 2 or more, not 1"),
    Row("uw.evaluate(E, 'mig', examples=0)", "examples must be 2 or more, not 0"),
    Row("uw.evaluate(E, 'mig', seed='x')", "seed of evaluate must be a whole number, not 'x'", "WrongCall"),
    Row("uw.evaluate(E, 'mig', gaussian='x')", "gaussian of evaluate must be true or false, not 'x'", "WrongCall"),
    Row("uw.evaluate(E, 'mig', dataset=3)", "dataset of evaluate must be a Dataset or None, not 3", "WrongCall"),
    Row("uw.evaluate(E, 'mig', dataset=uw.datasets.three_dots(examples=9))", "examples must have shape [n, 3], not"),
    Row("uw.evaluate('runs/pictures', 'mig')", "has no factors"),
    Row("uw.evaluate('runs/stopped', 'mig')", "no member of runs/stopped is finished"),
    Row("E.scores['nope']", "unknown score 'nope'"),
    Row("uw.metrics.mig('x', 'y')", "mig: factors have shape []; they must be [n, k], one row a sample"),
    Row("uw.metrics.mig()", "metric 'mig' needs codes, factors; its arguments are"),
    Row("uw.metrics.mig(np.zeros((5, 2)), np.zeros((5, 2)))", "it needs whole numbers (the index of each value)"),
    Row("uw.metrics.mig(np.zeros((5, 2)), np.eye(4, 2, dtype=int))", "5"),
    Row("uw.metrics.mig(torch.zeros(5, 2, device='meta'), np.eye(5, 2, dtype=int))", "it is on the device 'meta'"),
    Row("uw.metrics.mig(torch.zeros(5, 2).to_sparse(), np.eye(5, 2, dtype=int))", "is sparse: give x.to_dense()"),
    Row("uw.metrics.dci([[1, 2], [3]], [[1], [2]])", "its rows have different lengths"),
    Row("uw.metrics.local(3)", "3 is no metric: name one, or decorate your function with @untwine.metric"),
]

SHARE = [
    Row("uw.write_report(None)", "a run is named by its folder, as a text or a Path, not None"),
    Row("uw.write_report([])", "a report needs a run: give its folder"),
    Row("uw.write_report('nowhere')", "nowhere is no folder"),
    Row("uw.write_report('runs/vectors', 'a.pdf')", "a report is a page: its file ends in .html, unlike 'a.pdf'"),
    Row("uw.write_report('runs/vectors', 3)", "out of write_report must be a text, a Path or None, not 3", "WrongCall"),
    Row("uw.write_report('runs/vectors', 'notes.txt/a.html')", "notes.txt is a file, not a folder"),
    Row("uw.save_for_hub(None, 'hub')", "a run is named by its folder"),
    Row(
        "uw.save_for_hub('runs/vectors', None)",
        "folder of save_for_hub must be a text or a Path, not None",
        "WrongCall",
    ),
    Row("uw.save_for_hub('runs/vectors', 'runs')", "runs exists already and is not an empty folder"),
    Row("uw.save_for_hub(uw.fit(run(), progress=False), 'hub')", "these members live in memory alone"),
    Row("uw.from_hub(None)", "name of from_hub must be a text or a Path, not None", "WrongCall"),
    Row("uw.reproduce('nope')", "unknown figure or table 'nope'"),
    Row("uw.reproduce(None)", "name of reproduce must be a text, not None", "WrongCall"),
    Row(
        "uw.reproduce('rhodes2021/fig4', scale='huge')",
        "scale of reproduce must be 'smoke', 'small' or 'paper'",
        "WrongCall",
    ),
    Row("uw.launch.map(None, [1])", "function of map must be a function, not None", "WrongCall"),
    Row("uw.launch.map(len, None)", "specs of map must be a list, not None", "WrongCall"),
    Row("uw.launch.map(len, [1], engine='cloud')", "unknown engine 'cloud'; known: inline, processes, ray"),
    Row("uw.figures.save(3, 'a.pgn')", "a picture is a file that ends in .png, .pdf, .svg, unlike 'a.pgn'"),
]

PARTS = [
    Row("uw.methods.beta_vae(beta='x')", "beta of method 'beta_vae' must be a number, not 'x'"),
    Row("uw.methods.beta_vae(beta=None)", "beta of method 'beta_vae' must be a number, not None"),
    Row("uw.methods.beta_vae(bta=1)", "unknown argument of method 'beta_vae': 'bta'; did you mean 'beta'?"),
    Row(
        "uw.methods.beta_vae(likelihood=3)", "a likelihood is a name such as 'bernoulli', or a Likelihood; 3 is neither"
    ),
    Row("uw.methods.beta_vae(likelihood='nope')", "unknown likelihood 'nope'; known: bernoulli"),
    Row("uw.methods.beta_vae(prior='sparse(gamma=2)')", "gamma of prior 'sparse' must be from 0 to 1, not 2"),
    Row("uw.methods.vae().replace(pior='laplace')", "unknown part of an objective: 'pior'; did you mean 'prior'?"),
    Row("uw.methods.vae().replace(penalties={'kl': 3})", "must be a penalty such as 4.0 * penalties.kl, not 3"),
    Row("uw.methods.vae().replace(penalties=[uw.penalties.kl])", "penalties of part 'Objective' must be a mapping"),
    Row("uw.methods.vae().replace(penalties={'loss': uw.penalties.kl})", "a penalty cannot be called 'loss'"),
    Row("uw.methods.vae().replace(penalties={'a/b': uw.penalties.kl})", "/, . and _adversary mean something in names"),
    Row("uw.Penalty(3)", "must be a penalty, or its name in a text, not 3"),
    Row("'x' * uw.penalties.kl", "'x'"),
    Row("uw.penalties.jacobian(columns=0)", "columns of penalty 'jacobian' must be a whole number, 1 or more, not 0"),
    Row("uw.each('a')", "a number was expected, not 'a'"),
    Row("uw.ramp(1.0, -3)", "steps of schedule 'ramp' must be a whole number, 0 or more, not -3"),
    Row("uw.Needs(every=0)", "every of Needs must be a whole number of steps, 1 or more, not 0"),
    Row("uw.networks.mlp(hidden=[0])", "item 1 of hidden of network 'mlp' must be a whole number, 1 or more, not 0"),
    Row("uw.networks.mlp(hiden=[8])", "unknown argument of network 'mlp': 'hiden'; did you mean 'hidden'?"),
    Row("uw.datasets.three_dots(size='x')", "size of dataset 'three_dots' must be a whole number, not 'x'"),
    Row("uw.datasets.three_dots(siz=3)", "unknown argument of dataset 'three_dots': 'siz'; did you mean 'size'?"),
    Row("uw.datasets.nope", "unknown dataset 'nope'; known: cars3d", "AttributeError"),
    Row("uw.datasets.images(3)", "images: a source is a folder, a file, an array"),
    Row("uw.datasets.images(np.zeros((0, 3, 3)))", "has shape [0, 3, 3]"),
    Row("uw.datasets.images(np.full((3, 8, 8), np.nan))", "the array holds NaN or infinite values"),
    Row("uw.datasets.images(np.full((3, 8, 8), 'a'))", "it must hold numbers, such as uint8 or float32"),
    Row("uw.datasets.images(np.full((3, 8, 8), 300))", "holds integers from 300 to 300; they must be from 0 to 255"),
    Row("uw.datasets.images([1, 2, 3])", "item 0 is int"),
    Row("uw.datasets.images([np.zeros((3, 3)), np.zeros((4, 4))])", "item 1 has 4 x 4 pixels, and item 0 has 3 x 3"),
    Row("uw.datasets.images(torch.zeros(3, 8, 8, device='meta'))", "images: this tensor has no numbers"),
    Row("uw.datasets.images(torch.zeros(3, 8, 8).to_sparse())", "images: this tensor is sparse: give x.to_dense()"),
    Row("uw.datasets.images(np.zeros((3, 8, 8)), size=10**6)", "choose a smaller size"),
    Row("uw.datasets.three_dots(examples=9).batch([9])", "there is no example 9; they are 0 to 8"),
    Row("uw.datasets.three_dots(examples=9).batch('x')", "example numbers must be int64 [n]"),
    Row("uw.datasets.three_dots(examples=9).observe([[0] * 5])", "one column for each of x1, y1"),
    Row(
        "uw.datasets.xy_squares(size=10**5, square=8).observe(np.zeros((99, 6), int))", "99 examples of [3, 100000, 100"
    ),
]

SLIPS = [
    Row("fit(pen(lambda p: p.z.mean().item()))", "the penalty 'pen' cannot be trained with", "Refused"),
    Row(
        "fit(pen(lambda p: p.z.mean() * float(p.z.mean())))",
        "(.item(), float(), int()), which has no gradient",
        "Refused",
    ),
    Row(
        "fit(pen(lambda p: p.z.mean() * torch.randn(())))", "it draws from torch's global generator: ask for", "Refused"
    ),
    Row("fit(pen(lambda p: p.z.mean() * np.random.rand()))", "draws from NumPy's global generator", "Refused"),
    Row("fit(pen(lambda p: p.z.detach().numpy().mean() * p.z.mean()))", "it turns a tensor into an array", "Refused"),
    Row(
        "fit(pen(lambda p: p.z.mean() if p.z.mean() > 0 else -p.z.mean()))",
        "use torch.where, or torch.clamp",
        "Refused",
    ),
    Row(
        "fit(pen(lambda p: p.z))",
        "the value of penalty 'pen' must be a scalar tensor, the mean over the batch",
        "Refused",
    ),
    Row("fit(pen(lambda p: None))", "must be a scalar tensor, the mean over the batch, not None", "Refused"),
    Row("fit(pen(lambda p: p.nope))", "AttributeError: 'Pass' object has no attribute 'nope'", "Refused"),
    Row("fit(pen(lambda p: 1 / 0))", "the penalty 'pen' cannot be trained with", "Refused"),
    Row("fit(pen(lambda p: p.z @ p.z))", "the penalty 'pen' cannot be trained with", "Refused"),
    Row(
        "fit(pen(lambda p: p.z.mean() * math.nan))", "'pen' was nan; it was so before anything was learned", "Diverged"
    ),
    Row("fit(net(lambda info, outputs: (3, 4)))", "is no torch.nn.Module but 3", "Refused"),
    Row("fit(net(lambda info, outputs: (len, len)))", "is no torch.nn.Module but <built-in function len>", "Refused"),
    Row("fit(net(lambda info, outputs: nn.Linear(3, 4)))", "returns an encoder and a decoder, not Linear(", "Refused"),
    Row(
        "fit(net(lambda info, outputs: None))",
        "a network's builder returns an encoder and a decoder, not None",
        "Refused",
    ),
    Row("fit(net(3))", "its function must return a builder, (info, outputs) -> (encoder, decoder), not 3", "Refused"),
    Row("fit(net(lambda info: None))", "cannot be built: TypeError", "Refused"),
    Row("fit(net(lambda info, outputs: 1 / 0))", "cannot be built: ZeroDivisionError: division by zero", "Refused"),
    Row(
        "fit(halves(nn.Linear(3, 7), nn.Linear(10, 3)))",
        "returns [2, 7] for an input of shape [2, 3]; it must",
        "Refused",
    ),
    Row(
        "fit(halves(nn.Linear(5, 20), nn.Linear(10, 3)))", "fails on an input of shape [2, 3]: RuntimeError", "Refused"
    ),
    Row(
        "fit(halves(nn.Linear(3, 20), nn.Linear(10, 4)))", "it must return [2, 3]: an example for each code", "Refused"
    ),
    Row("fit(halves(nn.Linear(3, 20), nn.Linear(9, 3)))", "the decoder of network", "Refused"),
    Row("fit(halves(nn.LazyLinear(20), nn.Linear(10, 3)))", "lazy layers are not known", "Refused"),
    Row("fit(halves(nn.Linear(3, 20, device='meta'), nn.Linear(10, 3)))", "it is on the device 'meta'", "Refused"),
    Row(
        "fit(halves(nn.Linear(3, 20).double(), nn.Linear(10, 3)))",
        "weight is float64; build it as torch does",
        "Refused",
    ),
    Row(
        "fit(halves(nn.Sequential(nn.Linear(3, 20), nn.Dropout()), nn.Linear(10, 3)))", "Dropout draws from", "Refused"
    ),
    Row(
        "fit(halves(nn.Sequential(nn.Linear(3, 20), nn.BatchNorm1d(20)), nn.Linear(10, 3)))", "running stat", "Refused"
    ),
]

NO_SUCH_VALUE = [
    Row(r"uw.fit(run(), 'x\0y')", r"'x\x00y' cannot be the name of a file or folder"),
    Row(r"uw.fit(run(), 'x\ud800y')", r"'x\ud800y' cannot be the name of a file or folder"),
    Row("uw.fit(run(), 'x' * 300)", "xxx... is too long a name for a file; choose a shorter one"),
    Row(r"uw.load('x\0y')", "cannot be the name of a file or folder"),
    Row("uw.load('x' * 300)", "is too long a name for a file"),
    Row("uw.figures.curves('nowhere')", "a history is ensemble.history, or lines of a log, not 'nowhere'"),
    Row("uw.figures.curves(['nowhere'])", "a line of a history has a step and its members, not 'nowhere'"),
    Row("uw.figures.curves(None)", "a history is ensemble.history, or lines of a log, not None"),
    Row("uw.figures.scores('nowhere')", "values of scores must be a mapping, not 'nowhere'", "WrongCall"),
    Row("uw.figures.density(3)", "result of density must be a Density, not 3", "WrongCall"),
    Row("uw.figures.boxes(3)", "boxes needs by; its arguments are (rows, by,", "WrongCall"),
    Row("uw.figures.planes(3)", "meshes of planes must be a list", "WrongCall"),
    Row("P.encode(10**19)", "examples must have shape [n, 1, "),
    Row("E.encode(10**19)", "examples must have shape [n, 3], not []"),
    Row("E.decode(10**19)", "codes must have shape [n, 10] or [2, n, 10], not []"),
    Row("E.encode(np.zeros((2, 2), '>f4'))", "examples must have shape [n, 3], not [2, 2]"),
    Row("P.interpolate(np.zeros(P.info.shape), np.zeros(P.info.shape), 10**9)", "images would need"),
    Row("E.interpolate(np.zeros(3), np.zeros(3), 10**13)", "take fewer steps or lines"),
    Row("uw.analysis.latent_line(np.zeros(3), 0, -1, 1, 10**13)", "take fewer steps"),
    Row("uw.analysis.tile_regions(1, 1, 10**9, 10**9)", "take fewer pixels"),
    Row(
        "uw.analysis.aggregate_density(np.zeros((2, 2)), np.ones((2, 2)), points=10**9)", "would need 8.0 EB of memory"
    ),
    Row("uw.analysis.active_dimensions(np.ones((2, 2)), threshold='a')", "must be a number", "WrongCall"),
    Row("uw.priors.given(3)", "given takes a distribution of torch.distributions, not 3"),
    Row("uw.methods.decomposition_vae(divergence=None)", "a divergence is a name such as 'mmd' or a Penalty, not None"),
    Row("uw.methods.wae_mmd(divergence=None)", "a divergence is a name such as 'mmd' or a Penalty, not None"),
    Row("uw.methods.jl1_vae(estimator=np.zeros(3))", "must be"),
]

ROWS = FIT + RUN + LOAD + EVALUATE + SHARE + PARTS + SLIPS + NO_SUCH_VALUE
