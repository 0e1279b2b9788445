"""The browser of the browser tests, and the model that they compare with."""

from tests.browser.conftest import browser as browser
from tests.browser.conftest import model as model
