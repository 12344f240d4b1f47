"""The renderer of 3D Shapes: a ray caster for a shape that stands in a room.

The geometry does not depend on hues. So every view is cast once, into weights of materials: how much of each material
a pixel sees, times how brightly it is lit. An image is the sum of weights times colours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from jaxtyping import Bool, Float64, UInt8

from untwine.errors import unknown
from untwine.progress import track

SHAPES = ("cube", "cylinder", "sphere", "capsule")
MATERIALS = ("floor", "wall", "shape", "sky", "gleam")
FULL = 255  # the weight of a pixel that sees a single material, fully lit
SIDE = 64  # pixels along a side of an image
FINE = 4  # rays along a side of a pixel


@dataclass(frozen=True)
class Scene:
    """Geometry and light of the room; x is to the right, y into the image, z up, and angles are in degrees.

    The constants of the published dataset are unknown. These were fitted to what michlo2023 reports of its images, the
    perceived distances of Table A1 and the means and deviations of Table A2: by least squares from a plain room, then
    rounded, and adjusted by hand.
    """

    distance: float = 5.0  # from the camera to the axis on which the shape stands, along the floor
    height: float = 2.0  # of the camera
    aim: float = 1.45  # height of the point at which it looks
    field: float = 48.0  # of view
    half_width: float = 4.3  # from the axis to the walls at the sides
    depth: float = 3.85  # from the axis to the wall behind
    wall: float = 2.98  # height of the walls
    elevation: float = 50.0  # of the light, which comes from behind the camera at turn 0
    ambient: float = 0.6  # light from all directions
    diffuse: float = 0.54  # light on a surface that faces the light
    shadow: float = 0.45  # how much darker the floor is where the shape touches it
    gleam: float = 0.35  # how much white a reflection adds
    sharpness: float = 20.0  # of reflections
    # Radius (of a cube, half its side) and height of each shape at scale 1.
    cube: tuple[float, float] = (0.73, 1.46)
    cylinder: tuple[float, float] = (0.77, 1.5)
    sphere: tuple[float, float] = (0.91, 1.82)
    capsule: tuple[float, float] = (0.54, 2.02)
    sky: tuple[float, float, float] = (0.67, 0.93, 1.0)

    @property
    def light(self) -> Float64[np.ndarray, "3"]:
        """The direction towards the light."""
        angle = math.radians(self.elevation)
        return np.array([0.0, -math.cos(angle), math.sin(angle)])

    def size(self, shape: str, scale: float) -> tuple[float, float]:
        """The radius and the height of a shape."""
        if shape not in SHAPES:
            raise unknown("shape", shape, SHAPES)
        radius, height = getattr(self, shape)
        return scale * radius, scale * height

    def shade(self, cosine: Float64[np.ndarray, "..."]) -> Float64[np.ndarray, "..."]:
        """The brightness of a surface, by the cosine of the angle between its normal and the light."""
        return np.minimum(1.0, self.ambient + self.diffuse * np.maximum(0.0, cosine))


SCENE = Scene()


# --- shapes ---------------------------------------------------------------------------------------------

# Distances at which each ray enters and leaves a body. A ray that misses leaves before it enters.
Span = tuple[np.ndarray, np.ndarray]


def meet(
    shape: str, scale: float, origin: Float64[np.ndarray, "3"], rays: Float64[np.ndarray, "n 3"], scene: Scene = SCENE
) -> Float64[np.ndarray, " n"]:
    """The distance at which rays meet a shape that stands on the floor; inf where they miss.

    Args:
        shape: One of `SHAPES`.
        scale: Its scale.
        origin: Where the rays start, outside the shape.
        rays: Their directions.
        scene: The sizes of the shapes.

    >>> ahead, up = [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]
    >>> meet("sphere", 1.0, np.array([0.0, -5.0, SCENE.sphere[0]]), np.array([ahead, up])).round(9).tolist()
    [4.09, inf]
    """
    radius, height = scene.size(shape, scale)
    if shape == "cube":
        pieces = [[_slab(origin, rays, axis, -radius, radius) for axis in (0, 1)] + [_slab(origin, rays, 2, 0, height)]]
    elif shape == "cylinder":
        pieces = [[_round(origin, rays, radius, 0, 2), _slab(origin, rays, 2, 0, height)]]
    else:  # two balls and a cylinder between them; in a sphere both are the same ball
        pieces = [[_round(origin, rays, radius, z, 3)] for z in (radius, height - radius)]
        pieces.append([_round(origin, rays, radius, 0, 2), _slab(origin, rays, 2, radius, height - radius)])
    distance = np.full(len(rays), np.inf)
    for piece in pieces:  # a piece is the intersection of its bodies
        enter = np.max([enters for enters, _ in piece], axis=0)
        leave = np.min([leaves for _, leaves in piece], axis=0)
        distance = np.minimum(distance, np.where((enter <= leave) & (enter > 0), enter, np.inf))
    return distance


def _slab(origin: np.ndarray, rays: np.ndarray, axis: int, low: float, high: float) -> Span:
    """The space between two planes perpendicular to an axis."""
    with np.errstate(divide="ignore", invalid="ignore"):
        first, second = ((place - origin[axis]) / rays[:, axis] for place in (low, high))
    return np.minimum(first, second), np.maximum(first, second)


def _round(origin: np.ndarray, rays: np.ndarray, radius: float, z: float, axes: int) -> Span:
    """A ball around a point on the z axis (three axes), or an infinite cylinder around that axis (two)."""
    start, along = (origin - [0, 0, z])[:axes], rays[:, :axes]
    a, b, c = np.einsum("ni,ni->n", along, along), along @ start, start @ start - radius**2
    square = b * b - a * c
    root = np.sqrt(np.maximum(square, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        enter, leave = (-b - root) / a, (-b + root) / a
    upright = np.inf if c > 0 else -np.inf  # a ray parallel to a cylinder is always inside or never
    enter = np.where(a > 0, np.where(square >= 0, enter, np.inf), upright)
    return enter, np.where(a > 0, np.where(square >= 0, leave, -np.inf), -upright)


def normals(
    shape: str, scale: float, points: Float64[np.ndarray, "n 3"], scene: Scene = SCENE
) -> Float64[np.ndarray, "n 3"]:
    """The outward normals of a shape at points on its surface."""
    radius, height = scene.size(shape, scale)
    if shape == "cube":
        inside = (points - [0, 0, height / 2]) / [radius, radius, height / 2]
        nearest = np.abs(inside).argmax(1)[:, None] == np.arange(3)
        return np.where(nearest, np.sign(inside), 0.0)
    if shape == "cylinder":
        top = points[:, 2:] >= height * (1 - 1e-9)
        return np.where(top, [0.0, 0.0, 1.0], points * [1, 1, 0] / radius)
    centres = np.clip(points[:, 2:], radius, height - radius) * [0, 0, 1]
    return (points - centres) / radius


# --- views ----------------------------------------------------------------------------------------------


def camera(
    turn: float, side: int, scene: Scene = SCENE
) -> tuple[Float64[np.ndarray, "3"], Float64[np.ndarray, "rays 3"]]:
    """The position of the camera after a turn around the shape, and its rays, row by row from the top left."""
    angle = math.radians(turn)
    right = np.array([math.cos(angle), math.sin(angle), 0.0])
    origin = np.array([scene.distance * right[1], -scene.distance * right[0], scene.height])
    ahead = np.array([0.0, 0.0, scene.aim]) - origin
    ahead /= np.linalg.norm(ahead)
    steps = (2 * (np.arange(side) + 0.5) / side - 1) * math.tan(math.radians(scene.field / 2))
    rays = ahead + steps[:, None] * right - steps[:, None, None] * np.cross(right, ahead)
    return origin, (rays / np.linalg.norm(rays, axis=-1, keepdims=True)).reshape(-1, 3)


class View:
    """The room from one side: the floor, walls behind and at both sides, and the sky above them.

    >>> View(turn=15.0).weights("cube", 1.0).shape
    (5, 64, 64)
    """

    def __init__(self, turn: float, scene: Scene = SCENE, side: int = SIDE, fine: int = FINE) -> None:
        self.scene = scene
        self._side = side
        self._fine = fine
        origin, rays = camera(turn, side * fine, scene)
        self._origin = origin
        self._rays = rays
        x, y, z = rays.T
        with np.errstate(divide="ignore"):
            down = np.where(z < 0, -origin[2] / z, np.inf)
            aside = (np.copysign(scene.half_width, x) - origin[0]) / x
            behind = np.where(y > 0, (scene.depth - origin[1]) / y, np.inf)
        walls = np.minimum(aside, behind)
        self._floor: Bool[np.ndarray, " rays"] = down < walls
        self._ground = origin[:2] + down[self._floor, None] * rays[self._floor, :2]
        above = origin[2] + np.where(self._floor, 0.0, walls) * z > scene.wall
        light = scene.light
        bright = scene.shade(np.where(behind < aside, -light[1], 0.0))
        self._empty = np.zeros((len(MATERIALS), len(rays)))
        self._empty[0] = np.where(self._floor, scene.shade(light[2:]), 0.0)
        self._empty[1] = np.where(self._floor | above, 0.0, bright)
        self._empty[3] = above & ~self._floor

    def weights(self, shape: str, scale: float) -> UInt8[np.ndarray, "materials side side"]:
        """How much of each material every pixel sees, times its brightness; a pixel's weights sum to 255 at most."""
        scene, light = self.scene, self.scene.light
        weights = self._empty.copy()
        weights[0, self._floor] *= 1 - self._darkness(shape, scale)
        distance = meet(shape, scale, self._origin, self._rays, scene)
        seen = np.isfinite(distance)
        rays = self._rays[seen]
        facing = normals(shape, scale, self._origin + distance[seen, None] * rays, scene)
        halfway = light - rays
        halfway /= np.linalg.norm(halfway, axis=1, keepdims=True)
        mirrored = np.maximum(0.0, np.einsum("ni,ni->n", facing, halfway))
        gleam = scene.gleam * mirrored**scene.sharpness
        weights[:, seen] = 0.0
        weights[2, seen] = scene.shade(facing @ light) * (1 - gleam)
        weights[4, seen] = gleam
        pixels = weights.reshape(len(MATERIALS), self._side, self._fine, self._side, self._fine).mean((2, 4))
        # Cumulative sums are rounded, not weights: so the total never exceeds 255.
        return np.diff(np.rint(FULL * pixels.cumsum(0)), axis=0, prepend=0).astype(np.uint8)

    def _darkness(self, shape: str, scale: float) -> Float64[np.ndarray, " floor"]:
        """The fraction of light that the shape blocks from the floor around it.

        A ball at distance d blocks (1 + d^2 / r^2)^(-3/2) of uniform light from the floor. Other shapes are treated
        as balls at the distance of their foot, which is a point, a disc or a square.
        """
        radius, _ = self.scene.size(shape, scale)
        if shape == "cube":
            far = np.hypot(*np.maximum(np.abs(self._ground) - radius, 0.0).T)
        else:
            far = np.maximum(np.hypot(*self._ground.T) - (radius if shape == "cylinder" else 0.0), 0.0)
        return self.scene.shadow * (1 + (far / radius) ** 2) ** -1.5


def cast(
    scales: Sequence[float], shapes: Sequence[str], turns: Sequence[float], scene: Scene = SCENE
) -> UInt8[np.ndarray, "views materials side side"]:
    """The weights of all combinations of scale, shape and turn; turns run fastest."""
    table = np.empty((len(scales), len(shapes), len(turns), len(MATERIALS), SIDE, SIDE), np.uint8)
    for third, turn in enumerate(track(turns, "drawing 3D Shapes", len(turns))):
        view = View(turn, scene)
        for (first, scale), (second, shape) in product(enumerate(scales), enumerate(shapes)):
            table[first, second, third] = view.weights(shape, scale)
    return table.reshape(-1, *table.shape[3:])
