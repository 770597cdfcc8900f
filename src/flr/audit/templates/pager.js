
// Pages of the list: one after the other, or any by its number.

function paintPager() {
  const page = Math.floor(view.at / perPage());
  byId("pages").textContent = `of ${whole(pageCount())}`;
  byId("page").max = pageCount();
  byId("page").value = page + 1;
  byId("before").disabled = page === 0;
  byId("after").disabled = page >= pageCount() - 1;
}

const pageCount = () => Math.max(1, Math.ceil(view.listed.length / perPage()));

function turn(pages) {
  go(view.at - (view.at % perPage()) + pages * perPage());
}

function jumpToPage() {
  const wanted = Number(byId("page").value);
  const page = Math.max(1, Math.min(pageCount(), Math.round(wanted) || 1));
  go((page - 1) * perPage());
  announce(`Page ${whole(page)} of ${whole(pageCount())}.`);
}

function startPager() {
  byId("before").addEventListener("click", () => turn(-1));
  byId("after").addEventListener("click", () => turn(1));
  byId("page").addEventListener("change", jumpToPage);
}
