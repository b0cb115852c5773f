"""The page of a report in a real browser, from a file: tables, bags, colours, paper.

Needs chromium and chromedriver; without them these tests are left out and the run says so.
"""

import base64
import shutil
import urllib.parse

import numpy as np
import pytest

import bagwise
from bagwise.inspection import report
from report_pages import HOSTILE, spread_bags

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-quic --window-size=1280,900"
)
HOSTILE_BAG = 17
WORDS = np.array(["narrow", "some", "wide"])

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="no browser: chromium and chromedriver are missing"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in FLAGS.split():
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def addresses(tmp_path_factory):
    """Return the addresses of a page about real labels and of one about classes."""
    ids = [f"bag {i}" for i in range(120)]
    ids[HOSTILE_BAG] = HOSTILE
    bags, y = spread_bags(120, ids=ids, covariates=True)
    embedding = bagwise.KernelEmbedding(8, bandwidth=1.0)
    real = {
        "shrinkage": bagwise.ShrinkageRegressor(embedding),
        "BLR": bagwise.BayesianLinearRegressor(embedding),
    }
    classes = {"shrinkage": bagwise.ShrinkageClassifier(embedding, weight_var=10.0)}
    made = {
        "real": report.make(bags, 100 * (y - 1.5), real, folds=2, progress=False),
        "classes": report.make(bags, np.where(y > 1.5, "wide", "narrow"), classes, folds=2),
        "many": report.make(bags, WORDS[np.digitize(y, [1.33, 1.67])], classes, folds=2),
    }
    folder = tmp_path_factory.mktemp("pages")
    return {kind: one.write(folder / f"{kind}.html").as_uri() for kind, one in made.items()}


@pytest.fixture(params=["real", "classes", "many"])
def either(browser, addresses, request):
    opened(browser, addresses[request.param])
    return browser


@pytest.fixture
def page(browser, addresses):
    opened(browser, addresses["real"])
    return browser


def opened(browser, address):
    """Open an address afresh, also if it differs from the last only by what follows #."""
    browser.get("about:blank")
    browser.get(address)


def all_of(browser, css):
    return browser.find_elements("css selector", css)


def one(browser, css):
    return browser.find_element("css selector", css)


def column(browser, k):
    """Return the texts of a column of the table of bags."""
    rows = "[...document.querySelectorAll('#all-bags tbody tr')]"
    return browser.execute_script(
        f"return {rows}.map(row => row.cells[arguments[0]].textContent)", k
    )


def numbers(texts):
    return [float(text.replace("−", "-").replace(",", "").removesuffix(" ⚠")) for text in texts]


def is_open(browser):
    return browser.execute_script("return document.getElementById('panel').open")


def title(browser):
    """Return the name of the bag that is open, None if none is."""
    return one(browser, "#panel-title").text if is_open(browser) else None


def eventually(browser, condition):
    """Wait until something is true: browsers tell pages of a new address a little later."""
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(browser, 10).until(lambda _: condition())


def wait_for(browser, bag):
    """Wait until that bag is open, or none."""
    eventually(browser, lambda: title(browser) == bag)


def dispatch(browser, css, value, event):
    browser.execute_script(
        """
        const [css, value, event] = arguments;
        document.querySelector(css).value = value;
        document.querySelector(css).dispatchEvent(new Event(event, {bubbles: true}));
        """,
        css,
        value,
        event,
    )


# ---------------------------------------------------------------- loading


def test_it_loads_without_complaints_or_requests(either):
    assert either.get_log("browser") == []
    assert either.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert len(all_of(either, "#all-bags tbody tr")) == 25
    assert one(either, "#found").text == "120 bags"


def test_hostile_ids_do_not_run(browser, addresses):
    opened(browser, addresses["real"] + "#bag=" + urllib.parse.quote(HOSTILE))
    wait_for(browser, HOSTILE)
    assert all_of(browser, "img") == []
    assert browser.get_log("browser") == []


def test_everything_has_a_name(either):
    one(either, "#all-bags tbody a").click()
    wait_for(either, "bag 0")
    unnamed = either.execute_script("""
      const css = 'svg, img, button, input, select, a, [role=region], nav, dialog';
      const label = e => e.closest('label') && e.closest('label').textContent.trim();
      const written = e => !e.matches('svg, input, select, nav') && e.textContent.trim();
      return [...document.querySelectorAll(css)]
        .filter(e => !(e.getAttribute('aria-label') || label(e) || written(e)))
        .map(e => e.outerHTML.slice(0, 80));
    """)
    assert unnamed == []
    assert len(all_of(either, "h1")) == 1
    assert len(all_of(either, "main")) == 1


# ---------------------------------------------------------------- the table


def test_every_column_sorts_in_both_directions(page):
    heads = all_of(page, "#all-bags thead button")
    dispatch(page, "#rows", "500", "change")
    for k, button in enumerate(heads):
        page.execute_script("arguments[0].click()", button)
        up = column(page, k)
        page.execute_script("arguments[0].click()", button)
        down = column(page, k)
        states = [h.get_attribute("aria-sort") for h in all_of(page, "#all-bags thead th")]
        assert states == ["descending" if i == k else "none" for i in range(len(heads))]
        if k == 0 or "to" in up[0]:
            continue
        assert numbers(up) == sorted(numbers(up))
        assert numbers(down) == sorted(numbers(down), reverse=True)


def test_sorting_is_numeric_and_ids_are_sorted_as_people_do(page):
    from selenium.webdriver.common.keys import Keys

    first, points = all_of(page, "#all-bags thead button")[:2]
    points.send_keys(Keys.ENTER)
    assert one(page, "#all-bags thead th:nth-child(2)").get_attribute("aria-sort") == "ascending"
    points.send_keys(Keys.SPACE)
    assert set(column(page, 1)) == {"40"}  # and not 8, which comes last as text
    first.send_keys(Keys.ENTER)
    ids = [name for name in column(page, 0) if name != HOSTILE]
    assert ids[:12] == [f"bag {i}" for i in range(12)]


def test_sizes_with_thousands_are_numbers(page):
    values = page.execute_script("return (1234567).toLocaleString('en-US')")
    assert numbers([values]) == [1234567.0]


def test_many_classes_are_told_by_the_predicted_one(browser, addresses):
    opened(browser, addresses["many"])
    headings = [cell.text for cell in all_of(browser, "#all-bags thead th")]
    assert headings[2:5] == ["label", "predicted", "P(predicted)"]
    labels, predicted = column(browser, 2), column(browser, 3)
    assert set(labels) | set(predicted) == set(WORDS)
    assert all(1 / 3 <= p <= 1 for p in numbers(column(browser, 4)))
    dispatch(browser, "#filter", "inside", "change")
    assert column(browser, 2) == column(browser, 3)


def test_search_narrows_and_says_how_many(page):
    one(page, "#search").send_keys("BAG 11")
    assert one(page, "#found").text == "11 of 120 bags"
    assert set(column(page, 0)) == {"bag 11", *(f"bag 11{i}" for i in range(10))}
    one(page, "#search").send_keys("x")
    assert one(page, "#found").text == "0 of 120 bags"
    assert one(page, "#page").text == "No bag"
    assert not any(button.is_enabled() for button in all_of(page, "#pages button"))


def test_labels_outside_their_intervals_can_be_listed(page):
    dispatch(page, "#filter", "outside", "change")
    found = int(one(page, "#found").text.split()[0])
    assert 0 < found < 40
    for label, ends in zip(column(page, 2), column(page, 5), strict=True):
        lower, upper = numbers(ends.split(" to "))
        assert not lower < numbers([label])[0] < upper


def test_pages_lead_to_every_bag(page):
    seen = column(page, 0)
    for _ in range(4):
        one(page, "[data-go=next]").click()
        seen += column(page, 0)
    assert len(seen) == len(set(seen)) == 120
    assert one(page, "#page").text == "Rows 101–120 of 120, page 5 of 5"
    assert not one(page, "[data-go=next]").is_enabled()
    one(page, "[data-go=first]").click()
    assert column(page, 0) == seen[:25]


def test_another_model_shows_its_own_numbers(page):
    before, shown = column(page, 3), ".of-model:not([hidden])"
    blocks = len(all_of(page, shown))
    dispatch(page, "#model", "1", "change")
    assert column(page, 3) != before
    assert len(all_of(page, shown)) == blocks
    names = {block.get_attribute("data-model") for block in all_of(page, shown)}
    assert names == {"1"}


# ---------------------------------------------------------------- one bag


def test_a_bag_opens_by_mouse_and_closes(page):
    row = one(page, "#all-bags tbody tr:nth-child(3)")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", row)
    row.find_element("css selector", "td").click()
    wait_for(page, "bag 2")
    assert page.current_url.endswith("#bag=bag%202")
    assert len(all_of(page, "#panel svg")) == 3
    one(page, "#after").click()
    wait_for(page, "bag 3")
    one(page, "#close").click()
    wait_for(page, None)
    eventually(page, lambda: "#" not in page.current_url)


def test_a_bag_opens_by_keyboard_and_gives_the_focus_back(page):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    link = one(page, "#all-bags tbody tr:nth-child(2) a")
    link.send_keys(Keys.ENTER)
    wait_for(page, "bag 1")
    assert page.switch_to.active_element.get_attribute("id") == "panel-title"
    ActionChains(page).send_keys(Keys.ESCAPE).perform()
    wait_for(page, None)
    eventually(page, lambda: page.switch_to.active_element == link)


def test_an_address_leads_to_a_bag(browser, addresses):
    opened(browser, addresses["real"] + "#bag=bag%2099")
    wait_for(browser, "bag 99")
    words = one(browser, "#panel-body").text
    assert "Where the uncertainty is from" in words
    assert "How many more points?" in words
    opened(browser, addresses["real"] + "#bag=nobody")
    assert not is_open(browser)
    opened(browser, addresses["real"] + "#bag=%E0%A4%A")  # not a text
    assert not is_open(browser)
    assert browser.get_log("browser") == []


def test_worst_bags_lead_to_their_reasons_and_points(either):
    link = one(either, ".of-model:not([hidden]) .bag-name a")
    name = link.text
    either.execute_script("arguments[0].click()", link)
    wait_for(either, name)
    words = one(either, "#panel-body").text
    assert "What may be behind the error" in words
    assert "Points that push the prediction most" in words
    assert "Columns that push the prediction most" in words


# ---------------------------------------------------------------- colours, paper, small screens


def ground(browser):
    return browser.execute_script("return getComputedStyle(document.body).backgroundColor")


def media(browser, **features):
    some = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": some})


def test_dark_by_the_system_and_by_the_button(page):
    media(page, prefers_color_scheme="light")
    assert ground(page) == "rgb(255, 255, 255)"
    media(page, prefers_color_scheme="dark")
    dark = ground(page)
    assert dark == "rgb(20, 23, 27)"
    assert one(page, "#theme").text == "Light colours"  # what it would do
    one(page, "#theme").click()
    assert ground(page) == "rgb(255, 255, 255)"
    assert one(page, "#theme").text == "Dark colours"
    media(page)


def test_it_prints(page):
    pdf = page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    content = base64.b64decode(pdf["data"])
    assert content.startswith(b"%PDF")
    assert content.count(b"/Type /Page\n") >= 2
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    hidden = page.execute_script(
        "return ['.bar', '#panel', '#pages button', '#controls label']"
        ".every(css => getComputedStyle(document.querySelector(css)).display === 'none')"
    )
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert hidden


@pytest.mark.parametrize("width", [360, 1280])
def test_it_fits_the_screen(either, width):
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    either.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        assert either.execute_script("return document.documentElement.scrollWidth") <= width
        either.execute_script("location.hash = document.querySelector('#all-bags a').hash")
        wait_for(either, "bag 0")
        panel = either.execute_script("return document.getElementById('panel').scrollWidth")
        assert panel <= width
    finally:
        either.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
