"""All datasets of the project, a line for each. Importing this module registers them.

`untwine.datasets` offers these names; `import x as x` marks them as public for type checkers.
"""

from untwine.data.families.cars3d import cars3d as cars3d
from untwine.data.families.dots import three_dots as three_dots
from untwine.data.families.dsprites import dsprites as dsprites
from untwine.data.families.images import images as images
from untwine.data.families.mnist import fashion_mnist as fashion_mnist
from untwine.data.families.mnist import mnist as mnist
from untwine.data.families.mpi3d import mpi3d as mpi3d
from untwine.data.families.mpi3d import mpi3d_multi as mpi3d_multi
from untwine.data.families.patches import natural_patches as natural_patches
from untwine.data.families.pinwheel import pinwheel as pinwheel
from untwine.data.families.shapes3d import shapes3d as shapes3d
from untwine.data.families.smallnorb import smallnorb as smallnorb
from untwine.data.families.split import split as split
from untwine.data.families.squares import xy_squares as xy_squares
from untwine.data.families.synthetic import synthetic_linear as synthetic_linear
from untwine.data.families.synthetic import synthetic_nonlinear as synthetic_nonlinear
from untwine.data.families.tiled import tiled as tiled
