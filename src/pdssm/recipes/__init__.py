"""The paper's tables as lists of runs, and what runs them.

They are part of the package, so that ``pip install 'pdssm[train]'; pdssm reproduce table2`` finds them.
"""

from pdssm.errors import check_choice
from pdssm.recipes import ablations, mamba_depth, mixers, table2, table2b, table2b_baselines
from pdssm.recipes.base import Cell, Recipe

RECIPES: dict[str, Recipe] = {
    module.RECIPE.name: module.RECIPE for module in (table2, table2b, table2b_baselines, mamba_depth, mixers, ablations)
}


def find_recipe(name: str) -> Recipe:
    """By name."""
    check_choice("recipe", name, RECIPES)
    return RECIPES[name]


__all__ = ["RECIPES", "Cell", "Recipe", "find_recipe"]
