"""Families of datasets. A new family is one file here, imported below so that its datasets register themselves."""

from untwine.data.families import (
    cars3d,
    dots,
    dsprites,
    images,
    mnist,
    mpi3d,
    patches,
    pinwheel,
    shapes3d,
    smallnorb,
    squares,
    synthetic,
    tiled,
)

FAMILIES = (
    cars3d,
    dots,
    dsprites,
    images,
    mnist,
    mpi3d,
    patches,
    pinwheel,
    shapes3d,
    smallnorb,
    squares,
    synthetic,
    tiled,
)
