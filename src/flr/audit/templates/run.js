
startOverview();
startChooser();
startViewer();
startGrid();
startPager();
startSecond();
startEarlier();
byId("classes-close").addEventListener("click", () => byId("classes").close());
startReview();
